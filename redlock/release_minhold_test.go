package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/hazards.md H108, here and below.

func TestAReleaseBeforeTheMinimumHoldLeavesTheKeysForWhatIsLeftOfIt(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"shorter TTL": 2 * time.Second, "longer TTL": time.Hour} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				ctx := context.Background()
				a, b := fl.locker(), fl.locker()
				began := time.Now()
				k := take(t, a, "a", ttl, WithMinHold(10*time.Second))
				for _, m := range fl.masters {
					requireTTL(t, m, "a", max(ttl, 10*time.Second), began)
				}
				pass(3*time.Second - time.Since(began))
				released := time.Now()
				require.NoError(t, k.Release(ctx))
				require.ErrorIs(t, context.Cause(k.Context()), ErrReleased)
				fl.answered()
				require.Zero(t, fl.orders(command.Release))
				late := time.Since(released) // the last master was told so much later
				for _, m := range fl.masters {
					requireTTL(t, m, "a", 7*time.Second, released)
				}
				pass(7*time.Second - time.Millisecond - late)
				for _, l := range []*Locker{a, b} {
					_, err := l.TryAcquire(ctx, "a", time.Second)
					require.ErrorIs(t, err, ErrHeld)
				}
				pass(2*time.Millisecond + late)
				require.Zero(t, fl.keys("a"), "and no longer")
				require.NoError(t, take(t, b, "a", time.Second).Release(ctx))
			})
		})
	}
}

func TestAReleaseAfterTheMinimumHoldDeletes(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute, WithMinHold(10*time.Second))
		pass(10 * time.Second)
		require.NoError(t, k.Release(context.Background()))
		fl.releasedEverywhere("a")
		require.Zero(t, fl.orders(command.Shorten))
	})
}

// The remaining time is rounded up, so that no key expires before d.
func TestTheMinimumHoldIsNeverCutShort(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := takeAtOnce(t, fl.locker(), "a", time.Minute, WithMinHold(10*time.Second))
		pass(10*time.Second - 1500*time.Microsecond)
		require.NoError(t, k.Release(context.Background()))
		synctest.Wait()
		require.Equal(t, 3, fl.keys("a"), "10 ms, the least that a key may get")
		fl.answered()
		pass(12 * time.Millisecond)
		require.Zero(t, fl.keys("a"))
	})
}

func TestTheHoldIsValidForTheMinimumHoldAtLeast(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := takeAtOnce(t, fl.locker(), "a", time.Second, WithMinHold(10*time.Second))
		require.Equal(t, worth(10*time.Second), k.Remaining())
		pass(k.Remaining() - 1)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(context.Background()))
	})
}

func TestALossBeforeTheMinimumHoldLeavesTheOtherKeysForWhatIsLeftOfIt(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		fl.lateAt(2) // the others disown it
		k := takeAtOnce(t, fl.locker(), "a", time.Minute, WithMinHold(20*time.Second))
		fl.masters[0].Del("a")
		fl.masters[1].Del("a")
		pass(5 * time.Second)
		began := time.Now()
		require.ErrorIs(t, k.Extend(ctx, time.Minute), ErrLost)
		fl.answered()
		requireTTL(t, fl.masters[2], "a", 15*time.Second, began)
		require.ErrorIs(t, k.Release(ctx), ErrLost)
		pass(15*time.Second + time.Millisecond)
		require.Zero(t, fl.keys("a"))
	})
}

func TestTheMaximumHoldHonoursTheMinimumHold(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute, WithMinHold(20*time.Second), WithMaxHold(20*time.Second))
		pass(20 * time.Second)
		require.ErrorIs(t, context.Cause(k.Context()), ErrMaxHold)
		require.Zero(t, fl.keys("a"))
		_, err := fl.locker().TryAcquire(context.Background(), "b", time.Second,
			WithMinHold(2*time.Second), WithMaxHold(time.Second))
		require.ErrorIs(t, err, ErrInvalid)
	})
}

func TestExtendGoesBeyondTheMinimumHoldAndBack(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		k := takeAtOnce(t, l, "a", time.Second, WithMinHold(10*time.Second))
		require.NoError(t, k.Extend(ctx, time.Minute))
		pass(4 * time.Second)
		released := time.Now()
		require.NoError(t, k.Release(ctx))
		fl.answered()
		for _, m := range fl.masters { // the one place where a TTL shrinks
			requireTTL(t, m, "a", 6*time.Second, released)
		}
		pass(7 * time.Second)
		k = take(t, l, "a", time.Second, WithMinHold(10*time.Second))
		require.NoError(t, k.Extend(ctx, time.Minute))
		pass(30 * time.Second)
		require.NoError(t, k.Release(ctx))
		fl.releasedEverywhere("a")
	})
}

// A copy that expires earlier by itself is left alone, and so is another owner's key.
func TestTheMinimumHoldLengthensNothingAndTouchesNoForeignKey(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it alone shortens
		k := takeAtOnce(t, fl.locker(), "a", time.Minute, WithMinHold(20*time.Second))
		fl.masters[0].Set("a", k.Token(), 5*time.Second)
		fl.masters[1].Set("a", "another's", 50*time.Second)
		released := time.Now()
		require.NoError(t, k.Release(context.Background()))
		fl.answered()
		require.Equal(t, 5*time.Second-time.Since(released), fl.masters[0].TTL("a"))
		require.Equal(t, 50*time.Second-time.Since(released), fl.masters[1].TTL("a"))
		requireTTL(t, fl.masters[2], "a", 20*time.Second, released)
	})
}

func TestALockWithAMinimumHoldIsNotDetached(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute, WithMinHold(20*time.Second))
		_, err := k.Detach()
		require.ErrorIs(t, err, ErrInvalid)
		require.Greater(t, k.Remaining(), time.Duration(0), "it goes on")
		require.NoError(t, k.Release(context.Background()))
	})
}

// Only the undo of a won lock leaves a minimum hold.
func TestAnAttemptThatFailedLeavesNoMinimumHold(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.masters[0].Set("a", "another's", time.Minute)
		fl.masters[1].Set("a", "another's", time.Minute)
		_, err := fl.locker().TryAcquire(context.Background(), "a", time.Second, WithMinHold(20*time.Second))
		require.ErrorIs(t, err, ErrHeld)
		fl.answered()
		require.Zero(t, fl.orders(command.Shorten))
		_, stands := fl.masters[2].Get("a")
		require.False(t, stands)
	})
}

func TestAReleaseWithAMinimumHoldIsCalledARelease(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute, WithMinHold(20*time.Second))
		fl.each(func(m *fakeredis.Master) { m.FailWith("*", "LOADING Redis is loading the dataset in memory") })
		require.ErrorContains(t, k.Release(context.Background()), `: release "a": 0 of`)
	})
}

// A key that ended early would cut the minimum hold short.
func TestWhatRemainsOfAMinimumHoldIsRoundedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
		lk, err := l.TryAcquire(bg, "a", time.Second, WithMinHold(500*time.Millisecond))
		require.NoError(t, err)
		time.Sleep(100*time.Millisecond + time.Microsecond)
		require.NoError(t, lk.Release(bg))
		require.Equal(t, 400*time.Millisecond, nodes[0].commands(command.Shorten)[0].TTL)
		require.NoError(t, l.Close(bg))
	})
}
