package redlock

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

func TestABoundContextEndsWithTheLockOrTheCaller(t *testing.T) {
	for cause, end := range map[error]func(fl *testbed, k *Lock, cancel context.CancelCauseFunc){
		ErrReleased: func(_ *testbed, k *Lock, _ context.CancelCauseFunc) { _ = k.Release(bg) },
		ErrLost:     func(*testbed, *Lock, context.CancelCauseFunc) { pass(time.Minute) },
		errStop:     func(_ *testbed, _ *Lock, cancel context.CancelCauseFunc) { cancel(errStop) },
	} {
		inBubble(t, 3, func(fl *testbed) {
			k := take(t, fl.locker(), "a", 10*time.Second)
			given, cancel := context.WithCancelCause(context.WithValue(bg, key("user"), "me"))
			defer cancel(nil)
			ctx, release := k.Bind(given)
			defer release()
			require.NoError(t, ctx.Err())
			require.Equal(t, "me", ctx.Value(key("user")))
			child, stop := context.WithTimeout(ctx, time.Hour)
			defer stop()
			end(fl, k, cancel)
			<-child.Done()
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), cause)
			require.ErrorIs(t, context.Cause(child), cause)
		})
	}
}

// A context that is bound within Do also ends with the context that Do was called with.
func TestAContextThatIsBoundWithinDoEndsWithDo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		given, cancel := context.WithCancelCause(bg)
		require.NoError(t, fl.locker().Do(given, "a", 10*time.Second, func(_ context.Context, k *Lock) error {
			ctx, release := k.Bind(bg)
			defer release()
			cancel(errStop)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), errStop)
			return nil
		}))
	})
}

// A context that is bound to two locks belongs to both, and each of them ends it.
func TestAContextIsBoundToSeveralLocks(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		a, b, c := take(t, l, "a", 10*time.Second), take(t, l, "b", time.Minute), take(t, l, "c", time.Minute)
		outer, release := a.Bind(b.Context())
		defer release()
		ctx, release := c.Bind(outer)
		defer release()
		innermost, _ := FromContext(ctx)
		require.Same(t, c, innermost)
		for _, name := range []string{"a", "b", "c"} {
			_, err := l.Acquire(ctx, name, time.Second)
			require.ErrorIs(t, err, ErrAlreadyHeld, name)
		}
		d, err := l.Acquire(ctx, "d", time.Minute)
		require.NoError(t, err)
		_, err = l.Acquire(d.Context(), "a", time.Second)
		require.ErrorIs(t, err, ErrAlreadyHeld, "under a further lock")
		share, err := l.Acquire(ctx, "a", time.Second, WithShared())
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		fl.clock.Suspend(20 * time.Second)
		require.ErrorIs(t, ctx.Err(), context.Canceled, "no timer has run")
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
	})
}

// A context that was released from its lock is not kept.
func TestABoundContextThatWasReleasedIsForgotten(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		_, release := k.Bind(bg)
		require.Len(t, k.ctx.bound.open, 1)
		release()
		require.Empty(t, k.ctx.bound.open)
	})
}

// A service may bind the contexts of many requests to a lock that it holds for days.
func TestABoundContextThatWasReleasedIsFreed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		bound := func() weak.Pointer[boundContext] {
			ctx, release := k.Bind(bg)
			defer release()
			return weak.Make(ctx.(*boundContext))
		}()
		runtime.GC()
		require.Nil(t, bound.Value())
		require.NoError(t, k.Release(bg))
	})
}

// A caller may leave it to the end of its own context, as with context.WithCancel.
func TestABoundContextThatEndedWithItsParentIsForgotten(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		given, cancel := context.WithCancel(bg)
		_, _ = k.Bind(given)
		require.Len(t, k.ctx.bound.open, 1)
		cancel()
		synctest.Wait()
		require.Empty(t, k.ctx.bound.open)
		ctx, _ := k.Bind(given)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		synctest.Wait()
		require.Empty(t, k.ctx.bound.open, "the parent had ended before")
		require.NoError(t, k.Release(bg))
	})
}

// slow makes the end of a bound context take until the function is called.
func slow(ctx context.Context) (resume func()) {
	c, gate := ctx.(*boundContext), make(chan struct{})
	cancel := c.cancel
	c.cancel = func(cause error) {
		<-gate
		cancel(cause)
	}
	return func() { close(gate) }
}

// Two goroutines may end the context of a lock at the same time. The one that ends the lock goes on to undo the keys,
// so each waits until all bound contexts have ended.
func TestEachGoroutineThatEndsALockWaitsForTheEndOfItsBoundContexts(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		ctx, release := k.Bind(bg)
		defer release()
		resume := slow(ctx)
		go k.cancelContext(ErrReleased)
		synctest.Wait()
		released := make(chan error, 1)
		go func() { released <- k.Release(bg) }()
		synctest.Wait()
		require.Empty(t, released)
		fl.heldEverywhere("a") // nothing is undone
		require.LessOrEqual(t, k.Remaining(), time.Duration(0), "who only asks does not wait")
		require.ErrorIs(t, k.Context().Err(), context.Canceled)
		resume()
		require.NoError(t, <-released)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

// The timers' goroutine ends all locks. What users bind to one of them must not delay the others.
func TestTheEndOfBoundContextsDelaysNoOtherLock(t *testing.T) {
	for name, opts := range map[string][]LockOption{"end": nil, "stop margin": {WithStopMargin(time.Second)}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k, other := take(t, l, "a", 10*time.Second, opts...), take(t, l, "b", 10*time.Second, opts...)
				share := take(t, l, "c", 10*time.Second, opts...)
				share, err := l.Acquire(share.Context(), "c", 10*time.Second, WithShared())
				require.NoError(t, err)
				ctx, release := k.Bind(bg)
				defer release()
				ofShare, release := share.Bind(bg)
				defer release()
				defer slow(ctx)()
				defer slow(ofShare)()
				began, until := fl.clock.Now(), other.Remaining()-other.lease.Terms.StopMargin
				<-other.Context().Done()
				require.Equal(t, until, fl.clock.Now().Sub(began))
			})
		})
	}
}

// A share whose time is over after a suspend ends its lock as well, if the timer of that has not fired.
func TestAShareThatEndsItsLockDelaysNoOtherLock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		_, err := l.Acquire(k.Context(), "a", 10*time.Second, WithShared(), WithMaxHold(5*time.Second))
		require.NoError(t, err)
		ctx, release := k.Bind(bg)
		defer release()
		defer slow(ctx)()
		other := take(t, l, "b", 10*time.Second).Context()
		fl.clock.Suspend(time.Minute)
		<-other.Done()
	})
}

// A leader may bind one context for each request. None of them may cost more because of the others.
func TestTheEndOfALockEndsEachOfManyBoundContextsOnce(t *testing.T) {
	const n = 10_000
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		var ended atomic.Int64
		given, cancel := context.WithCancel(bg)
		for range n {
			ctx, release := k.Bind(given)
			defer release()
			c := ctx.(*boundContext)
			inner := c.cancel
			c.cancel = func(cause error) {
				ended.Add(1)
				inner(cause)
			}
		}
		require.NoError(t, k.Release(bg))
		require.EqualValues(t, n, ended.Load())
		for range 10 {
			_ = k.Remaining()
		}
		cancel()
		synctest.Wait()
		require.EqualValues(t, n, ended.Load())
	})
}

// No timer has run when the machine wakes up.
func TestABoundContextReportsTheEndRightAfterASuspend(t *testing.T) {
	for name, ended := range map[string]func(ctx context.Context) error{
		"Err":   context.Context.Err,
		"Cause": context.Cause,
		// In older versions of Go context.Cause calls only this one.
		"Value": func(ctx context.Context) error {
			_ = ctx.Value(key("user"))
			return ctx.(*boundContext).Context.Err()
		},
	} {
		inBubble(t, 3, func(fl *testbed) {
			k := take(t, fl.locker(), "a", 10*time.Second)
			ctx, release := k.Bind(bg)
			defer release()
			fl.clock.Suspend(time.Minute)
			require.Error(t, ended(ctx), name)
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
		})
	}
}

func TestABoundContextOfAnEndedLockHasEnded(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		require.NoError(t, k.Release(bg))
		ctx, release := k.Bind(bg)
		defer release()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
	})
}

func TestABoundContextBelongsToItsLock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		given, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		ctx, release := k.Bind(given)
		bound, ok := FromContext(ctx)
		require.True(t, ok)
		require.Same(t, k, bound)
		_, err := l.Acquire(ctx, "a", time.Second)
		require.ErrorIs(t, err, ErrAlreadyHeld)
		at, ok := ctx.Deadline()
		require.True(t, ok)
		require.Equal(t, 5*time.Second, time.Until(at))
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", ctx, ctx, ctx), k.Token())
		release()
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.NoError(t, k.Context().Err(), "the lock goes on")
		release()
		fl.answered()
		require.NoError(t, k.Release(bg))
	})
}

// A lock that must stop has ended for its work, and is still held.
func TestABoundContextOfALockThatMustStopHasEnded(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithStopMargin(5*time.Second))
		pass(6 * time.Second)
		ctx, release := k.Bind(bg)
		defer release()
		require.ErrorIs(t, ctx.(*boundContext).Context.Err(), context.Canceled, "at once")
		require.NoError(t, k.Release(bg))
	})
}

// Each lock is acquired under the context that is bound to the one before.
func TestAChainOfBoundContextsNamesEachLockOnce(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		const locks = 16
		l, ctx := fl.locker(), bg
		for i := range locks {
			k, err := l.TryAcquire(ctx, strconv.Itoa(i), time.Minute)
			require.NoError(t, err)
			var cancel context.CancelFunc
			ctx, cancel = k.Bind(ctx)
			defer cancel()
		}
		n := 0
		heldWithin(ctx).eachLock(func(*Lock) bool { n++; return false })
		require.Equal(t, locks, n)
	})
}
