package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// requireWaited checks the error of a wait that was over: it has the last reason, and is not taken
// for the end of a context.
func requireWaited(t *testing.T, err, reason error) {
	t.Helper()
	require.ErrorIs(t, err, reason)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "waited for 2s")
}

func TestABoundedWaitEndsWithTheReasonOfTheLastAttempt(t *testing.T) {
	for reason, prepare := range map[error]func(fl *testbed){
		ErrHeld:     func(fl *testbed) { take(fl.t, fl.process().locker(), "a", time.Hour) },
		ErrNoQuorum: func(fl *testbed) { fl.masters[0].Stop(); fl.masters[1].Stop() },
	} {
		inBubble(t, 3, func(fl *testbed) {
			prepare(fl)
			l := fl.locker()
			var err error
			for name, call := range map[string]func(){
				"Acquire":    func() { _, err = l.Acquire(bg, "a", time.Second, WithWait(2*time.Second)) },
				"AcquireAll": func() { _, err = l.AcquireAll(bg, []string{"a", "b"}, time.Second, WithWait(2*time.Second)) },
				"Do": func() {
					err = l.Do(bg, "a", time.Second, func(context.Context, *Lock) error {
						require.Fail(t, "no lock")
						return nil
					}, WithWait(2*time.Second))
				},
			} {
				took := elapsed(call)
				requireWaited(t, err, reason)
				require.Equal(t, 2*time.Second, took, name)
			}
			require.Zero(t, l.waiting.Queued("a"))
		})
	}
}

// The wait includes the queue of this process.
func TestABoundedWaitInTheQueueEndsToo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Hour)
		first := wants(bg, l, "a")
		synctest.Wait()
		var err error
		require.Equal(t, 2*time.Second, elapsed(func() { _, err = l.Acquire(bg, "a", time.Second, WithWait(2*time.Second)) }))
		requireWaited(t, err, ErrHeld)
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, first).k.Release(bg))
	})
}

type someKey struct{}

// The bound concerns the wait alone. The lock's context has the caller's values, and Do's also its
// end.
func TestALockOutlivesItsBoundedWait(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ended := make(chan HoldEvent, 10)
		l := fl.locker(WithTrace(&Trace{Ended: func(e HoldEvent) { ended <- e }}))
		ctx, cancel := context.WithCancel(context.WithValue(bg, someKey{}, "value"))
		defer cancel()
		k, err := l.Acquire(ctx, "b", time.Minute, WithWait(time.Second))
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		require.NoError(t, (<-ended).Context.Err(), "a hook's context is the caller's")
		k, err = l.Acquire(ctx, "a", time.Minute, WithWait(time.Second))
		require.NoError(t, err)
		pass(2 * time.Second)
		require.NoError(t, k.Context().Err())
		require.Equal(t, "value", k.Context().Value(someKey{}))
		other := wants(bg, l, "a") // waits behind this process's lock, and is handed it off
		synctest.Wait()
		next := make(chan *Lock, 1)
		go func() {
			n, err := l.Acquire(ctx, "a", time.Minute, WithWait(time.Hour))
			if err == nil {
				next <- n
			}
		}()
		synctest.Wait()
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, other).k.Release(bg))
		n := <-next
		pass(time.Second)
		require.NoError(t, n.Context().Err())
		require.Equal(t, "value", n.Context().Value(someKey{}))
		require.NoError(t, n.Release(bg))
		err = l.Do(ctx, "a", time.Minute, func(work context.Context, lock *Lock) error {
			pass(2 * time.Second)
			require.NoError(t, work.Err())
			found, ok := FromContext(context.WithValue(work, someKey{}, "another"))
			require.True(t, ok)
			require.Same(t, lock, found)
			cancel()
			<-work.Done()
			return nil
		}, WithWait(time.Second))
		require.NoError(t, err)
		_, ok := FromContext(bg)
		require.False(t, ok)
	})
}

// No wait at all is one attempt, past the queue.
func TestAWaitOfZeroIsOneAttempt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Hour)
		_, err := l.Acquire(bg, "a", time.Second, WithWait(0))
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, k.Release(bg))
		k, err = l.Acquire(bg, "a", time.Second, WithWait(0))
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		_, err = l.Acquire(bg, "a", time.Second, WithWait(-1))
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "WithWait(-1ns): at least 1ms")
	})
}

// If the caller's context ends first, its cause is the reason.
func TestTheCallersContextEndsABoundedWaitToo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.process().locker(), "a", time.Hour)
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, err := fl.locker().Acquire(ctx, "a", time.Second, WithWait(2*time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld)
	})
}

// The timer of a bounded wait may fire when its request is already reused. The race detector would see
// that.
func TestTheTimerOfABoundedWaitReadsNothingOfItsRequest(t *testing.T) {
	_, l := fakes(t, 3)
	for i := range 3000 {
		wait := lockOption(func(s *lockSettings) { // shorter than WithWait allows, to end during the attempt
			s.waitBounded, s.wait = true, time.Duration(1+i%60)*time.Microsecond
		})
		k, err := l.Acquire(bg, "a", time.Minute, wait)
		if err == nil {
			_ = k.Release(bg)
		}
	}
	_ = l.Close(bg)
}

// The machine is suspended during the last attempt, and the caller's context belongs to a lock that has
// ended meanwhile. No timer has run yet.
func TestABoundedWaitNoticesTheEndOfTheCallersLock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, p := fl.probed()
		outer := takeAll(t, l, []string{"a"}, 5*time.Second)
		p.take(command.Acquire, 2*time.Second)
		child, cancel := context.WithCancel(outer.Context())
		defer cancel()
		for _, ctx := range []context.Context{outer.Context(), child} {
			_, err := l.Acquire(ctx, "b", 2*time.Minute, WithWait(time.Hour))
			require.ErrorIs(t, err, ErrLost)
		}
	})
}

func TestTheEventsOfABoundedWaitHaveTheCallersContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var events []context.Context
		l := fl.locker(WithTrace(&Trace{
			Waiting:  func(e WaitEvent) { events = append(events, e.Context) },
			Acquired: func(e WaitEvent) { events = append(events, e.Context) },
		}))
		take(t, l, "a", time.Second)
		fl.answered()
		events = nil
		ctx := context.WithValue(bg, key("user"), "me")
		_, err := l.Acquire(ctx, "a", time.Minute, WithWait(time.Minute))
		require.NoError(t, err)
		fl.answered()
		require.NotEmpty(t, events)
		for _, of := range events {
			require.Equal(t, ctx, of)
		}
	})
}

// usersContext is a context of another package. A child of it takes a goroutine that waits for its end.
type usersContext struct{ context.Context }

func (usersContext) Value(any) any { return nil }

func TestABoundedWaitLeavesNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		take(t, l, "b", time.Hour)
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		base := goroutines()
		k, err := l.Acquire(usersContext{ctx}, "a", time.Minute, WithWait(time.Hour))
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		_, err = l.Acquire(usersContext{ctx}, "b", time.Minute, WithWait(time.Second))
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, base, goroutines())
	})
}

// timerClock keeps the timer that was set for one duration.
type timerClock struct {
	clock.Clock
	of    time.Duration
	timer clock.Timer
}

func (c *timerClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := c.Clock.AfterFunc(d, f)
	if d == c.of {
		c.timer = t
	}
	return t
}

func TestABoundedWaitStopsItsTimer(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		clk := &timerClock{Clock: fl.clock, of: 77 * time.Minute}
		k, err := fl.locker(WithClock(clk)).Acquire(bg, "a", time.Minute, WithWait(clk.of))
		require.NoError(t, err)
		require.NotNil(t, clk.timer)
		require.False(t, clk.timer.Stop(), "it was stopped before")
		require.NoError(t, k.Release(bg))
	})
}
