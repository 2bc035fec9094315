package fakeredis_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// seenBy is an observer that lists what it was told. The master's mutex guards it.
type seenBy []string

func (s *seenBy) add(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

func (s *seenBy) Executed(cmd string, args []string, reply any, err error) {
	s.add("%s %v: %v %v", cmd, args, reply, err)
}
func (s *seenBy) Deleted(key string)                           { s.add("deleted %s", key) }
func (s *seenBy) DataReplaced(keys map[string]fakeredis.Saved) { s.add("replaced %d", len(keys)) }
func (s *seenBy) Restarted()                                   { s.add("restarted") }
func (s *seenBy) ClockSet(step time.Duration, r int64, k []string) {
	s.add("clock %v %d %v", step, r, k)
}

func (s *seenBy) take() []string {
	defer func() { *s = nil }()
	return slices.Clone(*s)
}

func TestAnObserverIsToldWhatAMasterDid(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		var seen seenBy
		c := connect(t, m)
		m.Observe(&seen)
		do(t, c, "SET", "k", "v", "PX", "1000")
		do(t, c, "SET", "k", "v", "NX")
		do(t, c, "EVAL", "return {1, 'two', redis.call('GET', 'k')}", "0")
		_, err := c.Do("INCR", "k")
		require.Error(t, err)
		require.Equal(t, []string{
			"SET [k v PX 1000]: OK <nil>", "SET [k v NX]: <nil> <nil>",
			"EVAL [return {1, 'two', redis.call('GET', 'k')} 0]: [1 two v] <nil>", "INCR [k]: <nil> " + err.Error(),
		}, seen.take())

		m.Hook(func(int64, string, []string) (string, bool) { return ":7", true })
		do(t, c, "GET", "k")
		m.Hook(nil)
		require.Empty(t, seen.take(), "it was not executed")

		m.SetClock(-time.Hour)
		m.MoveClock(time.Minute)
		m.SetRate(1.5)
		older := m.Snapshot()
		m.Del("k")
		m.FlushAll()
		require.NoError(t, m.RestartWith(older))
		require.NoError(t, m.Restart(true))
		require.NoError(t, m.Restart(false))
		require.Equal(t, []string{
			"clock -1h0m0s 1000000000 [k]", "clock 1m0s 1000000000 [k]", "clock 0s 1500000000 [k]",
			"deleted k", "replaced 0", "replaced 1", "restarted", "restarted", "replaced 0", "restarted",
		}, seen.take())

		m.Observe(nil)
		m.FlushAll()
		require.Empty(t, seen.take())
	})
}
