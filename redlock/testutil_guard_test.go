package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// This file has what the tests of the restart guard share.

// guarded makes a guarded Locker of a testbed whose first quarantine is over. Its clock is its own,
// as in another process.
func (fl *testbed) guarded(opts ...Option) *Locker {
	fl.t.Helper()
	l := fl.process().locker(append([]Option{WithRestartGuard(guardTTL)}, opts...)...)
	fl.serve(l)
	return l
}

// serve waits until a guarded Locker can acquire locks.
func (fl *testbed) serve(l *Locker) {
	fl.t.Helper()
	if _, err := l.TryAcquire(bg, "warm-up", time.Second); errors.Is(err, ErrQuarantined) {
		pass(guardTTL) // a waiter in Acquire tries every second
	}
	k, err := l.Acquire(bg, "warm-up", 2*time.Second)
	require.NoError(fl.t, err)
	fl.answered()
	require.NoError(fl.t, k.Release(bg))
	fl.answered()
	pass(tick) // the other nodes' quarantines are over as well
	for _, m := range fl.masters {
		require.Equal(fl.t, "ok", state(m))
	}
}

// state returns the end of a master's marker: "ok", "q" and an instant, or "" without a marker.
func state(m *fakeredis.Master) string {
	v, _ := m.Get(guard.Key)
	return v[strings.LastIndexByte(v, '|')+1:]
}

// restate sets the state in a master's marker.
func restate(m *fakeredis.Master, to string) {
	v, _ := m.Get(guard.Key)
	m.Set(guard.Key, v[:strings.LastIndexByte(v, '|')+1]+to, 0)
}

// isQuarantined reports whether a master's marker has a quarantine.
func isQuarantined(m *fakeredis.Master) bool { return strings.HasPrefix(state(m), "q") }

// quarantines returns how long no quorum can vote according to an error.
func quarantines(t *testing.T, err error) time.Duration {
	t.Helper()
	var qe *QuorumError
	require.ErrorAs(t, err, &qe)
	return qe.QuarantinedFor()
}

// tick is added to a wait so that events due at its end have happened.
const tick = 2 * time.Millisecond
