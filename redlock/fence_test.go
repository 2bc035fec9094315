package redlock

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFencesOfANameIncreaseAtOneRoundTrip(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		last := int64(0)
		for range 20 {
			fl.forget()
			k := take(t, l, "a", time.Minute)
			require.Greater(t, k.Fence(), last)
			require.False(t, k.keys.confirmed)
			last = k.Fence()
			require.NoError(t, k.Extend(bg, time.Minute))
			require.Equal(t, last, k.Fence())
			fl.answered()
			require.NoError(t, k.Release(bg))
			fl.answered()
			require.Equal(t, 9, fl.count("EVALSHA"), "acquire, extend and release on each node")
		}
	})
}

func TestAFenceThatTheNodesDoNotAgreeOnIsConfirmed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		ahead := time.Now().Add(time.Hour).UnixMicro()
		fl.masters[0].Set("redlock:fence:a", strconv.FormatInt(ahead, 10), 0)
		fl.masters[2].Freeze()
		k := take(t, l, "a", time.Minute)
		require.True(t, k.keys.confirmed)
		require.Equal(t, ahead+1, k.Fence())
		require.NoError(t, k.Release(bg))
		fl.masters[2].Unfreeze()
		fl.masters[0].Freeze()
		require.Greater(t, take(t, l, "a", time.Minute).Fence(), k.Fence(), "the second node was told")
	})
}
