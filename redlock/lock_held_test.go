package redlock

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/wallclock"
)

func TestTheHeldLocksAreListed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		require.Empty(t, l.Held())
		since := time.Now()
		first := take(t, l, "b", time.Minute)
		pass(5 * time.Second)
		second, err := l.AcquireAll(bg, []string{"d", "c"}, 10*time.Second, WithAutoExtend())
		require.NoError(t, err)
		share, err := l.Acquire(first.Context(), "b", time.Second, WithShared())
		require.NoError(t, err)
		take(t, fl.process().locker(), "elsewhere", time.Minute)
		take(t, l, "ended", time.Second)
		waiting := wants(bg, l, "b")
		pass(time.Second)

		held := l.Held()
		require.Len(t, held, 2)
		require.Equal(t, []string{"b"}, held[0].Names)
		require.Equal(t, first.ID(), held[0].ID)
		require.WithinDuration(t, since, held[0].Since, 10*time.Millisecond)
		require.Equal(t, first.Remaining(), held[0].Remaining)
		require.Equal(t, first.Fence(), held[0].Fence)
		require.False(t, held[0].AutoExtend)
		require.Equal(t, []string{"c", "d"}, held[1].Names)
		require.True(t, held[1].AutoExtend)

		held[0].Names[0] = "changed"
		require.Equal(t, []string{"b"}, first.Names())
		require.NoError(t, share.Release(bg))
		require.NoError(t, first.Release(bg))
		require.NoError(t, second.Release(bg))
		require.NoError(t, gets(t, waiting).k.Release(bg))
		fl.answered()
		require.Empty(t, l.Held())
	})
}

func TestALockThatEndedDuringASuspendIsNotListed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		take(t, l, "a", time.Minute)
		fl.clock.Suspend(time.Hour)
		require.Empty(t, l.Held())
	})
}

// A lock may end while the list is being made: here, at the reading of the wall clock.
func TestALockThatEndsMeanwhileIsNotListed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var suspends atomic.Bool
		l := fl.locker(option(func(s *settings) {
			s.wall = func() int64 {
				if suspends.Swap(false) {
					fl.clock.Suspend(time.Hour)
				}
				return wallclock.Micros()
			}
		}))
		take(t, l, "a", time.Minute)
		suspends.Store(true)
		require.Empty(t, l.Held())
		require.False(t, suspends.Load())
	})
}

func TestTheHeldLocksAreInOrder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		var ids []string
		for _, name := range []string{"e", "b", "d", "a", "c"} {
			ids = append(ids, take(t, l, name, time.Minute).ID())
			pass(time.Millisecond)
		}
		var equal []string
		for i := range 5 { // the bubble's time stands still
			equal = append(equal, takeAtOnce(t, l, strconv.Itoa(i), time.Minute).ID())
		}
		slices.Sort(equal)
		var listed []string
		for _, h := range l.Held() {
			listed = append(listed, h.ID)
		}
		require.Equal(t, append(ids, equal...), listed)
	})
}

func TestTheZeroLockerHoldsNothing(t *testing.T) {
	require.Empty(t, new(Locker).Held())
}
