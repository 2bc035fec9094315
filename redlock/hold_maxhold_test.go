package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/hazards.md H17.
func TestNothingExtendsALockBeyondItsMaximumHold(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := takeAtOnce(t, fl.locker(), "a", 3*time.Second, WithAutoExtend(), WithMaxHold(10*time.Second))
		pass(9 * time.Second)
		require.NoError(t, k.Extend(ctx, time.Minute))
		require.Equal(t, time.Second, k.Remaining())
		fl.heldEverywhere("a")
		pass(k.Remaining() - 1)
		require.NoError(t, k.Context().Err())
		pass(1)
		require.ErrorIs(t, context.Cause(k.Context()), ErrMaxHold)
		require.Zero(t, k.Remaining())
		fl.answered()
		require.Zero(t, fl.keys("a"), "the keys had a minute to live")
		require.ErrorIs(t, k.Extend(ctx, time.Second), ErrMaxHold)
		require.ErrorIs(t, k.Check(ctx), ErrMaxHold)
		err := k.Release(ctx)
		require.ErrorIs(t, err, ErrMaxHold)
		require.NotErrorIs(t, err, ErrLost)
	})
}

// docs/dev/hazards.md H17: the maximum counts from the beginning of the acquisition, as the
// validity does.
func TestTheMaximumHoldCountsFromTheFirstSend(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		for _, m := range fl.masters {
			m.SetDelay(300 * time.Millisecond)
		}
		k, err := l.TryAcquire(context.Background(), "a", 3*time.Second, WithMaxHold(time.Second))
		require.NoError(t, err)
		require.Equal(t, 700*time.Millisecond, k.Remaining())
		pass(700 * time.Millisecond)
		require.ErrorIs(t, context.Cause(k.Context()), ErrMaxHold)
	})
}

// docs/dev/hazards.md H17: if the validity ends before the maximum, the lock is lost.
func TestALockThatRunsOutBeforeItsMaximumIsLost(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 3*time.Second, WithMaxHold(4*time.Second))
		pass(3 * time.Second)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
	})
}

// docs/dev/hazards.md H17.
func TestAnAutoExtendedLockIsHeldForADayByDefault(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		l := fl.locker()
		for name, c := range map[string]struct {
			opts []LockOption
			most time.Duration
		}{
			"by default": {[]LockOption{WithAutoExtend()}, 24 * time.Hour},
			"no bound":   {[]LockOption{WithAutoExtend(), WithMaxHold(NoMaxHold)}, NoMaxHold},
			"no bound for what doesn't extend itself": {nil, 0},
		} {
			k := take(t, l, name, time.Hour, c.opts...)
			require.Equal(t, c.most, k.lease.Terms.MaxHold, name)
			require.NoError(t, k.Release(bg))
		}
	})
}

func TestTheStopMarginEndsTheContextAndNotTheHandle(t *testing.T) {
	const ttl, margin = 10 * time.Second, 4 * time.Second
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", ttl, WithStopMargin(margin))
		end := k.Remaining()
		work := k.Context()
		pass(end - margin - 1)
		require.NoError(t, work.Err())
		pass(1)
		require.ErrorIs(t, context.Cause(work), ErrLost)
		require.Equal(t, margin, k.Remaining())
		require.NoError(t, k.Check(ctx), "the handle is valid to the end")
		err := k.Extend(ctx, ttl)
		require.ErrorContains(t, err, `lock lost: "a": its validity is over, and nothing extended it; `)
		require.ErrorContains(t, err, "; no extension after the end of its context")
		require.ErrorIs(t, err, ErrLost)
		pass(margin - 1)
		require.Zero(t, fl.orders(command.Extend, command.Release), "nothing is undone before")
		require.Equal(t, 3, fl.keys("a"))
		require.NoError(t, k.Release(ctx))
		fl.releasedEverywhere("a")
	})
}

func TestTheStopMarginCountsFromTheMaximumHoldToo(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l, p := fl.probed()
		k := takeAtOnce(t, l, "a", 10*time.Second, WithAutoExtend(), WithMaxHold(time.Minute), WithStopMargin(5*time.Second))
		pass(55*time.Second - 1)
		require.NoError(t, k.Context().Err())
		pass(1)
		require.ErrorIs(t, context.Cause(k.Context()), ErrMaxHold)
		require.Equal(t, 5*time.Second, k.Remaining())
		require.ErrorIs(t, k.Extend(ctx, time.Second), ErrMaxHold)
		sent := len(p.of(command.Extend))
		pass(5*time.Second - 1)
		require.Len(t, p.of(command.Extend), sent)
		require.Empty(t, p.of(command.Release))
		pass(1)
		require.ErrorIs(t, k.Release(ctx), ErrMaxHold)
		fl.releasedEverywhere("a")
	})
}

func TestAutoExtensionRunsAtAThirdOfWhatTheStopMarginLeaves(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := takeAtOnce(t, fl.locker(), "a", 10*time.Second, WithAutoExtend(), WithStopMargin(5*time.Second))
		third := (k.Remaining() - 5*time.Second) / 3
		pass(third - 1)
		require.Zero(t, fl.orders(command.Extend))
		pass(1)
		fl.answered()
		require.Equal(t, 3, fl.orders(command.Extend))
		pass(time.Minute)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(context.Background()))
	})
}

func TestAutoExtensionStopsAtTheStopMargin(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l, p := fl.probed()
		k := take(t, l, "a", 10*time.Second, WithAutoExtend(), WithStopMargin(4*time.Second))
		heal := failing(fl.masters...)
		pass(k.Remaining() - 4*time.Second - 1)
		tries := len(p.of(command.Extend))
		require.Greater(t, tries, 9)
		require.NoError(t, k.Context().Err())
		heal() // too late
		pass(1)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		pass(4*time.Second - 1)
		require.Len(t, p.of(command.Extend), tries)
		require.Equal(t, time.Duration(1), k.Remaining())
		require.NoError(t, k.Release(context.Background()))
	})
}

// An extension that is under way when the stop margin begins is too late.
func TestAnExtensionDecidedWithinTheStopMarginHasNoEffect(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithStopMargin(4*time.Second))
		for _, m := range fl.masters {
			m.SetDelay(200 * time.Millisecond)
		}
		pass(k.Remaining() - 4*time.Second - 100*time.Millisecond)
		err := k.Extend(context.Background(), 10*time.Second)
		require.ErrorContains(t, err, "no extension after the end of its context")
		require.Equal(t, 4*time.Second-100*time.Millisecond, k.Remaining())
		require.NoError(t, k.Release(context.Background()))
	})
}

// The work overruns its stop margin. What it is told at the margin and what Release returns are the same end.
func TestALossThatTheStopMarginHasToldIsTheOneThatReleaseReturns(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithStopMargin(4*time.Second))
		<-k.Context().Done()
		told := context.Cause(k.Context())
		require.ErrorIs(t, told, ErrLost)
		pass(5 * time.Second)
		require.ErrorIs(t, k.Release(context.Background()), told)
	})
}

// A quorum has granted it, so the lock was not lost for want of one.
func TestAnExtensionWithinTheStopMarginIsNoReasonOfTheLoss(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithStopMargin(4*time.Second))
		fl.each(func(m *fakeredis.Master) { m.SetDelay(200 * time.Millisecond) })
		pass(k.Remaining() - 4*time.Second - 100*time.Millisecond)
		require.Error(t, k.Extend(context.Background(), 10*time.Second))
		pass(4 * time.Second)
		var lost *LostError
		require.ErrorAs(t, k.Release(context.Background()), &lost)
		require.NotEqual(t, LossNoQuorum, lost.Reason)
		require.Empty(t, lost.Votes)
	})
}
