package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Close begins while the share is made. Otherwise Close would wait for a holder whom nothing told to stop.
func TestAShareThatCloseOvertakesHasAContextThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l, _, c := gated(t)
		k := take(t, l, "a", 10*time.Second)
		ctx := k.Context()
		c.gate(1)
		got := make(chan *Lock, 1)
		go func() {
			s, err := l.Acquire(context.WithoutCancel(ctx), "a", time.Second, WithShared())
			require.NoError(t, err)
			got <- s
		}()
		<-c.reached
		closed := make(chan error, 1)
		over, cancel := context.WithCancel(bg)
		cancel()
		go func() { closed <- l.Close(over) }()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), ErrClosed)
		close(c.open)
		s := <-got
		told := context.Cause(s.Context())
		require.NoError(t, s.Release(bg))
		require.NoError(t, k.Release(bg))
		require.ErrorIs(t, <-closed, context.Canceled)
		require.ErrorIs(t, told, ErrClosed)
	})
}

// Otherwise the nodes would be asked twice, and each share would extend the lock once more.
func TestAShareExtendsNothingByItself(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 3*time.Second)
		s := shared(t, k, WithAutoExtend())
		pass(2900 * time.Millisecond)
		require.Zero(t, fl.sees("extend"))
		pass(time.Second)
		require.ErrorIs(t, s.Release(bg), ErrLost)
	})
}
