package redlock

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/wallclock"
)

// This file has what the tests of fencing share.

// counter returns a master's counter for a key, or 0 if there is none.
func counter(t *testing.T, m *fakeredis.Master, key string) int64 {
	t.Helper()
	text, ok := m.Get(command.FencePrefix + key)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return n
}

// countTo sets a master's counter for "a" ahead of the time by that much, as if it had granted
// often without the others.
func countTo(m *fakeredis.Master, ahead time.Duration) int64 {
	n := time.Now().Add(ahead).UnixMicro()
	m.Set(command.FencePrefix+"a", strconv.FormatInt(n, 10), 0)
	return n
}

// apart gives each master another counter. The first has the largest.
func (fl *testbed) apart() (most int64) {
	for i, m := range fl.masters {
		most = max(most, countTo(m, time.Duration(len(fl.masters)-i)*time.Hour))
	}
	return most
}

// onConfirm calls f before a master executes a confirmation.
func onConfirm(m *fakeredis.Master, f func(client int64)) {
	m.Hook(func(client int64, cmd string, args []string) (string, bool) {
		if isScript(command.Confirm, cmd, args) {
			f(client)
		}
		return "", false
	})
}

// down makes a master refuse all scripts, as while it is loading. The function up ends it.
func down(m *fakeredis.Master) { _ = downFor(m) }

// downFor is down. It returns a channel that reports when the node has refused a script.
func downFor(m *fakeredis.Master) (asked <-chan struct{}) {
	reported, once := make(chan struct{}), sync.Once{}
	m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
		if cmd != "EVALSHA" && cmd != "EVAL" && cmd != "SET" {
			return "", false
		}
		once.Do(func() { close(reported) })
		return "MISCONF Errors writing to the AOF file", true
	})
	return reported
}

// up ends down. An earlier command may still be in transit: synctest.Wait lets it be refused first.
func up(m *fakeredis.Master) { m.Hook(nil) }

// wallAhead sets a Locker's wall clock ahead of all others.
func wallAhead(d time.Duration) Option {
	return option(func(s *settings) { s.wall = func() int64 { return wallclock.Micros() + d.Microseconds() } })
}
