package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// Acquire never returns a lock whose context has ended, that is, one whose validity is shorter than
// its stop margin.

func TestAStopMarginThatLeavesNothingIsRefused(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker(WithDrift(0.5, time.Second)) // 10 s are worth 3.995 s
		_, err := l.TryAcquire(bg, "a", 10*time.Second, WithStopMargin(4*time.Second))
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "less than its validity (3.995s)")
		k := takeAtOnce(t, l, "a", 10*time.Second, WithStopMargin(3994*time.Millisecond))
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(bg))
	})
}

func TestALockWonWithinItsStopMarginIsTooLate(t *testing.T) {
	const ttl, margin = 4 * time.Second, 2 * time.Second
	for _, late := range []bool{false, true} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker(WithNodeTimeout(3 * time.Second))
			delay := worth(ttl) - margin - time.Millisecond
			if late {
				delay += time.Millisecond
			}
			for _, m := range fl.masters {
				m.SetDelay(delay)
			}
			k, err := l.TryAcquire(bg, "a", ttl, WithStopMargin(margin))
			if late {
				require.ErrorIs(t, err, ErrTooLate)
				time.Sleep(delay)
				fl.answered()
				require.Zero(t, fl.keys("a"), "and undone")
				return
			}
			require.NoError(t, err)
			require.NoError(t, k.Context().Err())
			require.NoError(t, k.Release(bg))
		})
	}
}

func TestAClaimResumedWithinItsStopMarginIsTooLate(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		claim, err := take(t, l, "a", 10*time.Second).Detach()
		require.NoError(t, err)
		pass(6 * time.Second)
		_, err = l.Resume(bg, claim, WithStopMargin(4*time.Second))
		require.ErrorIs(t, err, ErrTooLate)
		require.Equal(t, 3, fl.keys("a"), "nothing was changed")
		k, err := l.Resume(bg, claim, WithStopMargin(3*time.Second))
		require.NoError(t, err)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(bg))
	})
}

// While Close waits, the holder may still extend its lock. Once Close has ended its context it may not, as
// the documentation of Extend promises.
func TestExtendContinuesWhileCloseWaits(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", time.Second)
		ctx, cancel := context.WithCancel(bg)
		closed := make(chan error, 1)
		go func() { closed <- l.Close(ctx) }()
		synctest.Wait()
		require.NoError(t, k.Extend(bg, 2*time.Second))
		cancel()
		require.Error(t, <-closed)
		require.ErrorIs(t, context.Cause(k.Context()), ErrClosed)
		require.ErrorIs(t, k.Extend(bg, 2*time.Second), ErrClosed)
		require.Positive(t, k.Remaining())
		require.Len(t, nodes[0].commands(command.Extend), 1)
		require.NoError(t, k.Release(bg))
	})
}
