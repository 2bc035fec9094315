package fakeredis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

func TestAMastersTimeAndExpiriesFollowItsOwnClock(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		ahead := func() time.Duration {
			reply := do(t, c, "EVAL", "local t = redis.call('TIME') return t[1] * 1000000 + t[2]", "0").(int64)
			return time.Until(time.UnixMicro(reply))
		}
		m.Set("k", "v", time.Minute)
		require.Zero(t, ahead())
		for _, d := range []time.Duration{20 * time.Second, 0, -time.Hour} {
			m.SetClock(d)
			require.Equal(t, d, ahead())
			time.Sleep(time.Second)
			require.Equal(t, d, ahead())
		}
		require.Equal(t, 37*time.Second, m.TTL("k"))
		time.Sleep(37 * time.Second)
		require.Empty(t, m.Keys())
		m.Set("k", "v", time.Minute)
		m.SetClock(0)
		require.Empty(t, m.Keys(), "an hour has passed at once")
	})
}

func TestAMastersClockHasARate(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		for _, rate := range []float64{2, 0.5} {
			m.SetRate(rate)
			m.Set("k", "v", time.Minute)
			time.Sleep(10 * time.Second)
			require.Equal(t, time.Minute-time.Duration(10*rate)*time.Second, m.TTL("k"))
			m.SetRate(1)
			time.Sleep(time.Second)
			require.Equal(t, 59*time.Second-time.Duration(10*rate)*time.Second, m.TTL("k"))
		}
	})
}

func TestAMasterRestartsWithOlderDataWhoseTTLsHaveContinued(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		m.Set("old", "v", time.Minute)
		m.Set("short", "v", time.Second)
		m.Set("counter", "1", 0)
		s := m.Snapshot()
		m.Set("counter", "2", 0)
		m.Set("new", "v", time.Hour)
		time.Sleep(10 * time.Second)
		run := m.RunID()
		require.NoError(t, m.RestartWith(s))
		require.NotEqual(t, run, m.RunID())
		require.Equal(t, []string{"counter", "old"}, m.Keys())
		require.Equal(t, 50*time.Second, m.TTL("old"))
		v, _ := m.Get("counter")
		require.Equal(t, "1", v)
	})
}
