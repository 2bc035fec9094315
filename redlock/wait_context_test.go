package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// stuckContext is a user's own context whose Done blocks from some time on.
type stuckContext struct {
	context.Context
	stuck atomic.Bool
	open  chan struct{}
}

func (c *stuckContext) Done() <-chan struct{} {
	if c.stuck.Load() {
		<-c.open
	}
	return c.Context.Done()
}

// A release checks whether the next waiter's context has ended. It calls none of the context's
// code, because all waiters and timers of the Locker would wait for that.
func TestAHandoverWaitsForNoWaitersContext(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, _ []*fakeNode, l *Locker) {
		k := take(t, l, "a", 30*time.Second)
		ctx := &stuckContext{Context: bg, open: make(chan struct{})}
		won := make(chan *Lock, 1)
		go func() {
			next, _ := l.Acquire(ctx, "a", 30*time.Second)
			won <- next
		}()
		synctest.Wait()
		ctx.stuck.Store(true)
		released := make(chan error, 1)
		go func() { released <- k.Release(bg) }()
		pass(time.Second)
		require.Len(t, released, 1)
		close(ctx.open)
		require.NoError(t, <-released)
		require.NoError(t, (<-won).Release(bg))
	})
}
