package redlock

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// What the tests of the restart guard share.

// guarded makes a guarded Locker of a testbed whose first quarantine is over. Its clock
// is its own, as another process would have it.
func (fl *testbed) guarded(opts ...Option) *Locker {
	fl.t.Helper()
	l := fl.process().locker(append([]Option{WithRestartGuard(guardTTL)}, opts...)...)
	fl.serve(l)
	return l
}

// serve waits until a guarded Locker can take locks.
func (fl *testbed) serve(l *Locker) {
	fl.t.Helper()
	if _, err := l.TryAcquire(bg, "warm-up", time.Second); errors.Is(err, ErrQuarantined) {
		pass(guardTTL) // who waits in Acquire asks every second
	}
	k, err := l.Acquire(bg, "warm-up", 2*time.Second)
	require.NoError(fl.t, err)
	synctest.Wait()
	require.NoError(fl.t, k.Release(bg))
	pass(tick) // the other nodes' quarantines are over, too
	for _, m := range fl.masters {
		require.Equal(fl.t, "ok", state(m))
	}
}

// state is how a master's marker ends: "ok", "q" and an instant, or "" without one.
func state(m *fakeredis.Master) string {
	v, _ := m.Get(wire.MarkerKey)
	return v[strings.LastIndexByte(v, '|')+1:]
}

// restate gives a master's marker another state.
func restate(m *fakeredis.Master, to string) {
	v, _ := m.Get(wire.MarkerKey)
	m.Set(wire.MarkerKey, v[:strings.LastIndexByte(v, '|')+1]+to, 0)
}

// isQuarantined reports whether a master's marker says so.
func isQuarantined(m *fakeredis.Master) bool { return strings.HasPrefix(state(m), "q") }

// quarantines is for how long an error says that no quorum can vote.
func quarantines(t *testing.T, err error) time.Duration {
	t.Helper()
	var qe *QuorumError
	require.ErrorAs(t, err, &qe)
	return qe.QuarantinedFor()
}

// tick is for what is due at an instant to happen before it is looked at.
const tick = 2 * time.Millisecond
