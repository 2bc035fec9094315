package redlock

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// docs/dev/hazards.md H24: no timer runs while the clock continues.
func TestRemainingIsByTheClockAndNeedsNoTimer(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := takeAtOnce(t, fl.locker(), "a", 10*time.Second)
		full := k.Remaining()
		require.Equal(t, worth(10*time.Second), full)
		fl.clock.Stall() // no timer runs from here on
		pass(time.Minute)
		require.Equal(t, full, k.Remaining(), "the clock stood still with everything else")
		fl.clock.Jump(4 * time.Second)
		require.Equal(t, full-4*time.Second, k.Remaining())
		fl.clock.Jump(full - 4*time.Second)
		require.Zero(t, k.Remaining())
		fl.clock.Jump(time.Hour)
		require.Equal(t, -time.Hour, k.Remaining())
		require.ErrorIs(t, k.Check(context.Background()), ErrLost)
		require.ErrorIs(t, k.Extend(context.Background(), time.Second), ErrLost)
		require.ErrorIs(t, k.Release(context.Background()), ErrLost)
		require.Zero(t, fl.orders(command.Extend))
		fl.answered()
		require.Equal(t, 3, fl.orders(command.Inspect), "the query for the next holder, and none of the calls")
		fl.clock.Resume()
	})
}

// docs/dev/hazards.md H24, H114: a clock that is set back does not revive a lock that has ended.
func TestAClockSetBackRevivesNoLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		fl.clock.Jump(time.Minute)
		require.ErrorIs(t, k.Check(context.Background()), ErrLost)
		fl.clock.Jump(-time.Minute)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		require.ErrorIs(t, k.Extend(context.Background(), time.Second), ErrLost)
	})
}

// docs/dev/hazards.md H62, H107.
func TestASuspendedMachineWakesUpWithoutItsLock(t *testing.T) {
	for _, ttl := range []time.Duration{100 * time.Millisecond, 2 * time.Second, 10 * time.Second, time.Hour} {
		for name, opts := range map[string][]LockOption{"fixed": nil, "extended": {WithAutoExtend()}} {
			t.Run(fmt.Sprint(ttl, name), func(t *testing.T) {
				inBubbles(t, 3, func(fl *testbed) {
					l := fl.locker()
					asked, watched := takeAtOnce(t, l, "a", ttl, opts...), takeAtOnce(t, l, "b", ttl, opts...)
					ctx, done := asked.Context(), watched.Context().Done()
					pass(ttl / 10)
					fl.clock.Suspend(ttl)
					woke := fl.clock.Now()
					require.LessOrEqual(t, asked.Remaining(), time.Duration(0))
					require.Error(t, ctx.Err())
					require.ErrorIs(t, context.Cause(ctx), ErrLost)
					<-done
					require.LessOrEqual(t, fl.clock.Now().Sub(woke), timer.Slack)
					fl.answered()
					require.Zero(t, fl.orders(command.Extend), "of what is over nothing is extended")
				})
			})
		}
	}
}

// docs/dev/hazards.md H107: a call that checks the context first also gets the cause, and values.
func TestTheCauseOfAContextIsKnownAtOnceAfterASuspend(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := take(t, fl.locker(), "a", 10*time.Second).Context()
		child := context.WithValue(ctx, key("x"), "y")
		fl.clock.Suspend(10 * time.Second)
		require.ErrorIs(t, context.Cause(child), ErrLost)
		require.ErrorIs(t, child.Err(), context.Canceled)
	})
}

// docs/dev/hazards.md H107: work that starts after the suspend starts with a context that has
// ended.
func TestWhatBeginsAfterASuspendIsOverFromTheStart(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		used, unused := take(t, l, "a", 10*time.Second).Context(), take(t, l, "b", 10*time.Second)
		fl.clock.Suspend(10 * time.Second)
		child, cancel := context.WithCancel(used)
		defer cancel()
		require.Error(t, child.Err())
		<-child.Done()
		require.ErrorIs(t, context.Cause(child), ErrLost)
		select {
		case <-unused.Context().Done():
		default:
			require.Fail(t, "a context taken for the first time is still open")
		}
	})
}

// docs/dev/hazards.md H62, H107: a share has no end of its own and must check its lock's.
func TestAShareIsOverAtOnceAfterASuspend(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		for _, nested := range []bool{false, true} {
			k := take(t, l, "a", 10*time.Second)
			s, err := l.Acquire(k.Context(), "a", time.Second, WithShared())
			require.NoError(t, err)
			if nested {
				s, err = l.Acquire(s.Context(), "a", time.Second, WithShared())
				require.NoError(t, err)
			}
			ctx := s.Context()
			fl.clock.Suspend(10 * time.Second)
			require.Error(t, ctx.Err())
			require.ErrorIs(t, context.Cause(ctx), ErrLost)
			require.LessOrEqual(t, s.Remaining(), time.Duration(0))
			require.ErrorIs(t, s.Release(context.Background()), ErrLost)
			fl.answered()
		}
	})
}

// docs/dev/hazards.md H62: a suspend that leaves some validity is survived.
func TestAnExtendedLockSurvivesAShortSuspend(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		pass(5 * time.Second)
		fl.clock.Suspend(20 * time.Second)
		require.NoError(t, k.Context().Err())
		pass(time.Second)
		require.Greater(t, k.Remaining(), 28*time.Second)
		require.NoError(t, k.Release(context.Background()))
	})
}

// docs/dev/hazards.md H66: the process gets no processor time, so timers are late. The call that
// checks the lock extends or ends it in the timer's place.
func TestTheStateOfALockIsRightWithoutTimers(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		ctx := k.Context()
		fl.clock.Stall() // the timers
		fl.clock.Jump(12 * time.Second)
		require.NoError(t, ctx.Err()) // this call extends the lock
		fl.answered()
		require.Equal(t, 3, fl.orders(command.Extend))
		require.Greater(t, k.Remaining(), 29*time.Second)
		fl.clock.Jump(30 * time.Second)
		require.Error(t, ctx.Err())
		fl.releasedEverywhere("a")
		fl.clock.Resume()
	})
}

// docs/dev/hazards.md H66: the goroutine that ends the hold is stopped in the middle. No other
// goroutine may see a context that is still valid.
func TestAContextSaysNoWhileAnotherIsStillEndingIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		skewed := clocktest.NewSkewed(clock.Runtime())
		c := &gatedClock{Clock: skewed}
		_, l := fakes(t, 3, WithClock(c))
		k := take(t, l, "a", 10*time.Second)
		ctx := k.Context()
		_, err := l.Acquire(ctx, "a", time.Second, WithShared())
		require.NoError(t, err)
		skewed.Stall()
		skewed.Jump(k.Remaining())
		c.gate(3) // first the lock's end is found, then the lock is ended, and now its share
		go func() { _ = ctx.Err() }()
		synctest.Wait()
		<-c.reached
		require.NoError(t, k.ctx.Context.Err(), "what is below, not asked by anybody: the share ends first")
		require.Error(t, ctx.Err())
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		close(c.open)
		synctest.Wait()
		skewed.Resume()
		require.ErrorIs(t, k.Release(context.Background()), ErrLost)
	})
}
