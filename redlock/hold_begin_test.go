package redlock

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/wallclock"
)

// atStart makes a Locker call f, on the goroutine that acquires, just before it marks a lock as held. It
// may call f at other instants as well.
func atStart(f *func()) Option {
	return option(func(s *settings) {
		s.wall = func() int64 { // the event Started has the time
			if *f != nil {
				(*f)()
			}
			return wallclock.Micros()
		}
	})
}

// A timer may end a lock as soon as it is held. Waiters would then wait forever for a holder that was
// recorded after its end.
func TestALockIsAHolderForWaitersBeforeItIsHeld(t *testing.T) {
	var look func()
	var holders, queued atomic.Int64
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithTrace(&Trace{Started: func(HoldEvent) {}}), atStart(&look))
		look = func() {
			names, _ := l.waiting.Size()
			holders.Store(int64(names))
			queued.Store(int64(l.waiting.Queued("a")))
		}
		k := take(t, l, "a", time.Minute)
		require.Equal(t, int64(1), holders.Load())
		require.Zero(t, queued.Load(), "it is not among the waiters any more")
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = l.Resume(bg, claim)
		require.NoError(t, err)
		require.Equal(t, int64(1), holders.Load(), "after Resume")
		require.NoError(t, k.Release(bg))
	})
}

// The lock ends when its end can no longer end the share, and before the share is held. The share
// would never end.
func TestAShareOfALockThatHasJustEndedIsNone(t *testing.T) {
	for what, end := range endings {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var starts, ends atomic.Int64
				var at func()
				trace := &Trace{Started: func(HoldEvent) { starts.Add(1) }, Ended: func(HoldEvent) { ends.Add(1) }}
				_, l, skewed, _ := gated(t, WithTrace(trace), atStart(&at))
				k := take(t, l, "a", 10*time.Second)
				at = func() {
					at = nil
					end(skewed, k)
				}
				s, err := l.Acquire(k.Context(), "a", time.Second, WithShared())
				require.Error(t, err)
				require.Nil(t, s)
				synctest.Wait()
				require.Equal(t, int64(2), starts.Load())
				require.Equal(t, int64(2), ends.Load(), "every hold that started ends")
			})
		})
	}
}
