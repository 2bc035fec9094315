package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// working starts Do with work, and returns the channel of its result.
func working(ctx context.Context, l *Locker, name string, work func(ctx context.Context) error, opts ...LockOption) <-chan error {
	done := make(chan error, 1)
	go func() {
		done <- l.Do(ctx, name, 3*time.Second, func(ctx context.Context, _ *Lock) error { return work(ctx) }, opts...)
	}()
	synctest.Wait()
	return done
}

// untilTold is work that goes on until its context ends, and then returns the error of its context.
func untilTold(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestACloseWithoutADeadlineWaitsForTheWork(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		did := working(bg, l, "a", func(ctx context.Context) error {
			time.Sleep(10 * time.Minute) // virtual
			return ctx.Err()
		})
		fl.heldEverywhere("a")
		closed := begunClose(bg, l)
		pass(5 * time.Minute)
		fl.heldEverywhere("a")
		require.Empty(t, closed)
		require.NoError(t, <-did)
		require.NoError(t, <-closed)
		fl.releasedEverywhere("a")
	})
}

func TestTheEndOfTheContextOfCloseTellsTheHoldersToStop(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		did := working(bg, l, "a", untilTold)
		k := take(t, l, "b", 3*time.Second, WithAutoExtend())
		ctx, cancel := context.WithCancel(bg)
		closed := begunClose(ctx, l)
		pass(time.Minute)
		require.NoError(t, k.Context().Err())
		require.Empty(t, did)
		cancel()
		require.ErrorIs(t, <-did, ErrClosed)
		<-k.Context().Done() // in any order
		require.ErrorIs(t, context.Cause(k.Context()), ErrClosed)
		require.ErrorIs(t, <-closed, context.Canceled)
		require.ErrorIs(t, k.Release(bg), pool.ErrClosed)
	})
}

// Each holder has the time that it needs to release before Close returns, and no more than a quarter of
// the time of Close.
func TestADeadlineOfCloseTellsEachHolderInTimeToStop(t *testing.T) {
	for _, test := range []struct {
		within, margin time.Duration
		told, other    time.Duration // the holder with that stop margin, and one without a margin
	}{
		{within: 20 * time.Second, margin: 3 * time.Second, told: 17 * time.Second, other: 19500 * time.Millisecond},
		{within: 20 * time.Second, margin: time.Millisecond, told: 19500 * time.Millisecond, other: 19500 * time.Millisecond},
		{within: 8 * time.Second, margin: 4 * time.Second, told: 6 * time.Second, other: 7500 * time.Millisecond},
		{within: time.Second, margin: 4 * time.Second, told: 750 * time.Millisecond, other: 750 * time.Millisecond},
	} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			k := take(t, l, "a", 10*time.Second, WithAutoExtend(), WithStopMargin(test.margin))
			other := take(t, l, "b", 10*time.Second, WithAutoExtend())
			ctx, cancel := context.WithTimeout(bg, test.within)
			defer cancel()
			began, closed := time.Now(), begunClose(ctx, l)
			var ends []time.Time // of the validity
			for _, end := range []struct {
				k  *Lock
				at time.Duration
			}{{k, test.told}, {other, test.other}} {
				<-end.k.Context().Done()
				require.ErrorIs(t, context.Cause(end.k.Context()), ErrClosed)
				require.Equal(t, end.at, time.Since(began).Truncate(time.Microsecond), "the wall clock is read in microseconds")
				ends = append(ends, time.Now().Add(end.k.Remaining()))
			}
			err := <-closed
			for i, k := range []*Lock{k, other} {
				require.False(t, time.Now().Add(k.Remaining()).After(ends[i]), "it was extended after the end of its context")
			}
			fl.answered()
			sent := fl.orders(command.Extend)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, `locks still held until their TTL: ["a" "b"]`)
			require.Positive(t, k.Remaining())
			pass(20 * time.Second)
			require.Equal(t, sent, fl.orders(command.Extend), "extensions after the end of the contexts")
			fl.releasedEverywhere("a")
		})
	}
}

// The holder is told in time, so its release ends Close before the deadline.
func TestWorkThatEndsWhenItIsToldLeavesNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		did := working(bg, l, "a", untilTold)
		fl.answered()
		ctx, cancel := context.WithTimeout(bg, 20*time.Second)
		defer cancel()
		require.NoError(t, l.Close(ctx))
		require.ErrorIs(t, <-did, ErrClosed)
		fl.releasedEverywhere("a")
	})
}

func TestALeaderThatNeverReturnsEndsNoCloseBeforeItsDeadline(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		told, resume := make(chan error, 1), make(chan struct{})
		end := leads(bg, l, func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			told <- context.Cause(ctx)
			<-resume
			return nil
		})
		fl.heldEverywhere("a")
		ctx, cancel := context.WithTimeout(bg, 20*time.Second)
		defer cancel()
		closed := begunClose(ctx, l)
		require.Len(t, told, 1, "at once")
		require.ErrorIs(t, <-told, ErrClosed)
		pass(19 * time.Second)
		fl.heldEverywhere("a")
		require.ErrorContains(t, <-closed, `locks still held until their TTL: "a"`)
		pass(3 * time.Second)
		fl.releasedEverywhere("a")
		close(resume)
		require.EqualError(t, end(), `redlock: locker closed: "a"`)
	})
}

// Work that returned nil has not failed. An error of the work after Close has ended its context is no
// plain end of a context.
func TestTheErrorOfDoSaysThatCloseEndedTheContext(t *testing.T) {
	over, cancel := context.WithCancel(bg)
	cancel()
	for name, test := range map[string]struct {
		work  func(ctx context.Context) error
		match []error
	}{
		"nil":                 {func(ctx context.Context) error { <-ctx.Done(); return nil }, nil},
		"the context's error": {untilTold, []error{ErrClosed, context.Canceled}},
		"its own error":       {func(ctx context.Context) error { <-ctx.Done(); return errWork }, []error{ErrClosed, errWork}},
		"the cause":           {func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, []error{ErrClosed}},
		"the lock's error": {func(ctx context.Context) error {
			<-ctx.Done()
			k, _ := FromContext(ctx)
			return errors.Join(errWork, k.Err())
		}, []error{ErrClosed, errWork}},
		"an error after the lock has ended": {func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // virtual
			return errWork
		}, []error{ErrClosed, errWork, ErrLost}},
		"nil after the lock has ended": {func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // virtual
			return nil
		}, []error{ErrLost}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				did := working(bg, l, "a", test.work)
				_ = l.Close(over) // names the lock, or has waited for its release
				err := <-did
				for _, want := range []error{ErrClosed, errWork, ErrLost, context.Canceled} {
					require.Equal(t, slices.Contains(test.match, want), errors.Is(err, want), "%v in %v", want, err)
				}
				if err != nil {
					require.LessOrEqual(t, strings.Count(err.Error(), ErrClosed.Error()), 1, "%v", err)
				}
			})
		})
	}
}

// The context belongs to a lock of another Locker, which is closed.
func TestAnotherLockersCloseClosesNoOther(t *testing.T) {
	over, cancel := context.WithCancel(bg)
	cancel()
	inBubble(t, 3, func(fl *testbed) {
		l, other := fl.locker(), fl.locker()
		k := take(t, l, "a", time.Minute)
		theirs := take(t, fl.locker(), "held", time.Minute)
		waited := make(chan error, 1)
		go func() { waited <- second(other.Acquire(k.Context(), "held", time.Second)) }()
		did := working(k.Context(), other, "b", func(ctx context.Context) error {
			<-ctx.Done()
			return errWork
		})
		require.ErrorContains(t, l.Close(over), "still held")
		require.Equal(t, errWork, <-did)
		err := <-waited
		require.ErrorIs(t, err, ErrClosed, "the cause of the context")
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, `redlock: acquire "held": redlock: locker closed; until then: redlock: held by another client`)
		require.NoError(t, theirs.Release(bg))
	})
}

// The caller's context has ended before Close could end the work's.
func TestTheErrorOfDoDoesNotNameCloseIfTheCallerEndedTheContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		ctx, cancel := context.WithCancelCause(bg)
		resume := make(chan struct{})
		did := working(ctx, l, "a", func(ctx context.Context) error {
			<-ctx.Done()
			<-resume
			return ctx.Err()
		})
		fl.answered()
		cancel(errStop)
		synctest.Wait()
		require.Error(t, l.Close(ctx))
		close(resume)
		require.Equal(t, context.Canceled, <-did)
	})
}
