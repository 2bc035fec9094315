package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// key is a context key of the tests.
type key string

func TestTheContextEndsWithTheCauseOfTheEnd(t *testing.T) {
	for _, test := range []struct {
		cause error
		opts  []LockOption
		end   func(l *Locker, k *Lock) error
	}{
		{ErrReleased, nil, func(_ *Locker, k *Lock) error { return k.Release(bg) }},
		{ErrLost, nil, func(*Locker, *Lock) error { pass(10 * time.Second); return nil }},
		{ErrMaxHold, []LockOption{WithMaxHold(8 * time.Second)}, func(*Locker, *Lock) error { pass(8 * time.Second); return nil }},
		{ErrDetached, nil, func(_ *Locker, k *Lock) error { _, err := k.Detach(); return err }},
		{ErrClosed, nil, func(l *Locker, _ *Lock) error {
			over, cancel := context.WithCancel(bg)
			cancel()
			_ = l.Close(over) // names the lock
			return nil
		}},
	} {
		for _, taken := range []string{"before", "after"} {
			t.Run(test.cause.Error()+", taken "+taken, func(t *testing.T) {
				inBubbles(t, 3, func(fl *testbed) {
					l := fl.locker()
					k := take(t, l, "a", 10*time.Second, test.opts...)
					if taken == "before" {
						require.NoError(t, k.Context().Err())
					}
					require.NoError(t, test.end(l, k))
					c := k.Context()
					require.ErrorIs(t, c.Err(), context.Canceled)
					require.ErrorIs(t, context.Cause(c), test.cause)
					<-c.Done()
					require.Same(t, c, k.Context())
					_ = k.Release(bg)
				})
			})
		}
	}
}

func TestTheContextCarriesValuesAndNotTheCancellation(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		given, cancel := context.WithTimeout(context.WithValue(bg, key("user"), "me"), time.Minute)
		k, err := fl.locker().Acquire(given, "a", 10*time.Second)
		require.NoError(t, err)
		cancel()
		ctx := k.Context()
		require.NoError(t, ctx.Err())
		require.Equal(t, "me", ctx.Value(key("user")))
		_, has := ctx.Deadline()
		require.False(t, has, "an extension would move it")
		for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
			of, _ := FromContext(ctx)
			require.Same(t, k, of)
		}
		require.NoError(t, k.Release(given))
	})
}

// A child with a later deadline than the lock's end keeps its deadline. It would not if the lock's
// context reported one.
func TestAChildKeepsItsOwnDeadline(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithAutoExtend())
		child, cancel := context.WithTimeout(k.Context(), 20*time.Second)
		defer cancel()
		pass(20 * time.Second)
		require.ErrorIs(t, child.Err(), context.DeadlineExceeded)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(child))
	})
}

func TestAThousandChildrenEndWithTheContextAndCostNoGoroutine(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		ctx := k.Context()
		before := goroutines()
		var children []context.Context
		for range 250 {
			cancelled, c1 := context.WithCancel(ctx)
			timed, c2 := context.WithTimeout(ctx, time.Hour)
			valued, c3 := context.WithCancelCause(context.WithValue(ctx, key("x"), "y"))
			deep, c4 := context.WithCancel(cancelled)
			children = append(children, cancelled, timed, valued, deep)
			defer func() { c1(); c2(); c3(nil); c4() }()
		}
		fl.answered()
		require.LessOrEqual(t, goroutines(), before)
		pass(k.Remaining() - 1)
		for _, c := range children {
			require.NoError(t, c.Err())
		}
		pass(1)
		for _, c := range children {
			require.ErrorIs(t, c.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(c), ErrLost)
			<-c.Done()
		}
	})
}

func TestAFunctionAfterTheContextRunsWhenTheLockEnds(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		ran, stopped := make(chan time.Duration, 1), 0
		context.AfterFunc(k.Context(), func() { ran <- k.Remaining() })
		stop := context.AfterFunc(k.Context(), func() { stopped++ })
		require.True(t, stop())
		pass(10 * time.Second)
		require.LessOrEqual(t, <-ran, time.Duration(0))
		require.Zero(t, stopped)
	})
}

func TestAHeldLockCostsNoGoroutine(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		before := goroutines()
		var locks []*Lock
		for _, name := range []string{"a", "b", "c", "d"} {
			locks = append(locks, take(t, l, name, time.Minute))
			_ = locks[len(locks)-1].Context()
		}
		auto := take(t, l, "e", time.Minute, WithAutoExtend())
		require.LessOrEqual(t, goroutines(), before)
		pass(50 * time.Second)
		require.LessOrEqual(t, goroutines(), before)
		for _, k := range append(locks, auto) {
			require.NoError(t, k.Release(bg))
		}
		fl.answered()
		require.LessOrEqual(t, goroutines(), before)
		require.Zero(t, l.timers.Len(), "and nothing to wake up for")
		for _, m := range fl.masters {
			require.Empty(t, m.Keys())
		}
	})
}

// The stop margin had ended the context before the release. Otherwise a caller would learn of a release only.
func TestTheFirstCauseOfAnEndIsKept(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithStopMargin(4*time.Second))
		pass(6 * time.Second) // nobody has asked for the context yet
		require.NoError(t, k.Release(bg))
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
	})
}
