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

const contextPanic = "the caller's context"

// panickyContext is a user's own context that panics at its nth call.
type panickyContext struct {
	context.Context
	calls, at int
}

func (c *panickyContext) called() {
	if c.calls++; c.calls == c.at {
		panic(contextPanic)
	}
}

func (c *panickyContext) Done() <-chan struct{} { c.called(); return c.Context.Done() }
func (c *panickyContext) Err() error            { c.called(); return c.Context.Err() }

// panicsAt calls f with a context that panics at its nth call, and reports whether it did.
func panicsAt(t *testing.T, at int, f func(ctx context.Context)) (panicked bool) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			require.Equal(t, contextPanic, v)
			panicked = true
		}
	}()
	f(&panickyContext{Context: bg, at: at})
	return false
}

// A caller that recovers from a panic of its context leaves no waiter in the queue, and no attempt.
func TestAContextThatPanicsLeavesNothing(t *testing.T) {
	panics := 0
	for at := 1; panics == at-1; at++ { // until the context is not called as often
		inBubble(t, 3, func(fl *testbed) {
			k, l := take(t, fl.process().locker(), "a", time.Hour), fl.locker()
			timer := time.AfterFunc(10*time.Second, func() { _ = k.Release(bg) })
			defer timer.Stop()
			if panicsAt(t, at, func(ctx context.Context) {
				next, err := l.Acquire(ctx, "a", time.Second)
				require.NoError(t, err)
				require.NoError(t, next.Release(bg))
			}) {
				panics++
			}
			names, _ := l.waiting.Size()
			require.Zero(t, l.waiting.Queued("a"), "queued after a panic at call %d; %d names", at, names)
			require.NoError(t, k.Release(bg))
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			next, err := l.Acquire(ctx, "a", time.Second)
			require.NoError(t, err)
			require.NoError(t, next.Release(bg))
			require.NoError(t, l.Close(ctx), "after a panic at call %d", at)
		})
	}
	require.Greater(t, panics, 3)
}

// A lock of Do is released, whatever call of the context panics.
func TestAContextThatPanicsInDoLeavesNoLock(t *testing.T) {
	panics := 0
	for at := 1; panics == at-1; at++ { // until the context is not called as often
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			if panicsAt(t, at, func(ctx context.Context) {
				require.NoError(t, l.Do(ctx, "a", time.Hour, func(context.Context, *Lock) error { return nil }))
			}) {
				panics++
			}
			require.Zero(t, l.Stats().Held, "after a panic at call %d", at)
			require.NoError(t, l.Close(bg))
		})
	}
	require.Greater(t, panics, 2)
}

// A claim can be resumed after a panic of the caller's context.
func TestAContextThatPanicsInResumeLeavesNothing(t *testing.T) {
	panics := 0
	for at := 1; panics == at-1; at++ { // until the context is not called as often
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			claim, err := take(t, l, "a", time.Hour).Detach()
			require.NoError(t, err)
			if panicsAt(t, at, func(ctx context.Context) {
				k, err := l.Resume(ctx, claim)
				require.NoError(t, err)
				claim, err = k.Detach()
				require.NoError(t, err)
			}) {
				panics++
			}
			k, err := l.Resume(bg, claim)
			require.NoError(t, err, "after a panic at call %d", at)
			require.NoError(t, k.Release(bg))
		})
	}
	require.Greater(t, panics, 2)
}
