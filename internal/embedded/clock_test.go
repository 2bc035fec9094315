package embedded_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/embedded"
)

func TestAMastersOwnClockIsWhatItTellsAndWhatKeysExpireBy(t *testing.T) {
	inBubble(t, func(t *testing.T, m *embedded.Master) {
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
		require.Empty(t, m.Keys(), "an hour has gone by at once")
	})
}
