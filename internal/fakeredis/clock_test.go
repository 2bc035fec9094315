package fakeredis_test

import (
	"math/big"
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
		require.Equal(t, time.Hour+57*time.Second, m.TTL("k"), "the instant at which it expires is the same")
		time.Sleep(time.Hour + 57*time.Second)
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

// The trace of a simulation states a clock's rate and its steps, and the proof counts with whole numbers.
func TestAMastersClockIsExactAfterAnyNumberOfSteps(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		began, sum := time.Now(), new(big.Int)
		for i := range 100 {
			rate := 900_000_007 + int64(i)*2_000_003
			m.SetRate(float64(rate) / 1e9)
			m.MoveClock(time.Duration(i) - 50)
			time.Sleep(time.Duration(1_234_567*i + 1))
			ran := new(big.Int).Mul(big.NewInt(rate), big.NewInt(int64(1_234_567*i+1)))
			sum.Add(sum, ran).Add(sum, big.NewInt(int64(i-50)*1e9))
			m.Set("k", "v", time.Hour)
			want := new(big.Int).Div(sum, big.NewInt(1e9)).Int64() // rounded down
			require.Equal(t, began.Add(time.Duration(want)+time.Hour), m.Snapshot().Key("k").Expires)
		}
	})
}

func TestASnapshotsKeysExpireByTheMastersClock(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		m.Set("k", "v", time.Minute)
		s := m.Snapshot()
		m.SetClock(50 * time.Second)
		require.NoError(t, m.RestartWith(s))
		require.Equal(t, 10*time.Second, m.TTL("k"))
		m.SetClock(time.Minute)
		require.NoError(t, m.RestartWith(s))
		require.Empty(t, m.Keys())
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
