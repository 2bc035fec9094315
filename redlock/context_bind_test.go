package redlock

import (
	"context"
	"fmt"
	"runtime"
	"testing"
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
		require.Len(t, k.ctx.own.bound, 1)
		release()
		require.Empty(t, k.ctx.own.bound)
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

// Two goroutines may end a lock at the same time. Each goes on to undo the keys when its call has returned,
// so each must end all bound contexts itself.
func TestEachGoroutineThatEndsALockEndsItsBoundContexts(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		ctx, release := k.Bind(bg)
		defer release()
		k.cancelContext(ErrReleased)
		require.Contains(t, k.ctx.own.bound, ctx, "for the other goroutine")
		require.NoError(t, k.Release(bg))
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
