package redlock

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// What the tests of fencing share.

// counter is the number that a master has counted up to for a key; 0 for none.
func counter(t *testing.T, m *fakeredis.Master, key string) int64 {
	t.Helper()
	text, ok := m.Get(wire.FencePrefix + key)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// countTo sets a master's counter for "a" to that much ahead of the time, as if it had
// granted so often that others did not see.
func countTo(m *fakeredis.Master, ahead time.Duration) int64 {
	n := time.Now().Add(ahead).UnixMicro()
	m.Set(wire.FencePrefix+"a", strconv.FormatInt(n, 10), 0)
	return n
}

// apart makes all masters count differently: the first one most.
func (fl *testbed) apart() (most int64) {
	for i, m := range fl.masters {
		most = max(most, countTo(m, time.Duration(len(fl.masters)-i)*time.Hour))
	}
	return most
}

// onConfirm has f called before a confirmation is executed on a master.
func onConfirm(m *fakeredis.Master, f func(client int64)) {
	m.Hook(func(client int64, cmd string, args []string) (string, bool) {
		if isScript(wire.Confirm, cmd, args) {
			f(client)
		}
		return "", false
	})
}

// down makes a master refuse all scripts, as one that is loading; up ends it.
func down(m *fakeredis.Master) { _ = downFor(m) }

// downFor is down, and tells when the node has refused something.
func downFor(m *fakeredis.Master) (asked <-chan struct{}) {
	told, once := make(chan struct{}), sync.Once{}
	m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
		if cmd != "EVALSHA" && cmd != "EVAL" && cmd != "SET" {
			return "", false
		}
		once.Do(func() { close(told) })
		return "MISCONF Errors writing to the AOF file", true
	})
	return told
}

// up ends that. What was asked before may still be on its way: synctest.Wait lets it be
// refused first.
func up(m *fakeredis.Master) { m.Hook(nil) }

// wallAhead makes a Locker's wall clock differ from everybody's.
func wallAhead(d time.Duration) Option {
	return option(func(s *settings) { s.wall = func() int64 { return clock.Wall() + d.Microseconds() } })
}
