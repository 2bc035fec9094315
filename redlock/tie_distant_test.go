package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/late"
)

// withAStaleKey runs f on three masters. The first is near and holds a key that is never released.
// The second is near and grants. The third is far away.
func withAStaleKey(t *testing.T, far time.Duration, f func(fl *testbed, l *Locker)) {
	t.Helper()
	late.LeaveOut(t, "it measures how long a tie waits for a distant master")
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.masters[0].Set("a", "somebody gone", time.Hour)
		fl.masters[2].SetDelay(far)
		f(fl, l)
	})
}

// docs/dev/rules.md rule 22: if a key stays on a node, a tied attempt waits for a distant node by that node's own round
// trips. Two attempts show that it stays.
func TestATieWaitsForADistantMaster(t *testing.T) {
	t.Parallel()
	for _, far := range []time.Duration{time.Millisecond, 12 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		withAStaleKey(t, far, func(_ *testbed, l *Locker) {
			for i := range 50 {
				var k *Lock
				var err error
				took := elapsed(func() { k, err = l.TryAcquire(bg, "a", 10*time.Second) })
				require.NoError(t, err, "%v away, attempt %d", far, i)
				if i > 0 {
					require.LessOrEqual(t, took, far+l.learning(), "%v away, attempt %d", far, i)
				}
				require.NoError(t, k.Release(bg))
				pass(time.Second)
			}
		})
	}
}

// learning is how long it takes at most to see that a key stays: two attempts, each with a pause behind it.
func (l *Locker) learning() time.Duration { return 2 * (minTie + l.set.backoff.Max) }

// A new Locker needs a few attempts until it knows the distant node's round trip.
func TestAWaitingAcquireSoonWaitsForADistantMaster(t *testing.T) {
	t.Parallel()
	for _, far := range []time.Duration{25 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		for range 20 {
			withAStaleKey(t, far, func(_ *testbed, l *Locker) {
				for i := range 3 {
					var k *Lock
					var err error
					took := elapsed(func() { k, err = l.Acquire(bg, "a", 10*time.Second) })
					require.NoError(t, err)
					most := far + l.learning()
					if i == 0 {
						most += far + minTie // to learn how far it is
					}
					require.LessOrEqual(t, took, most, "%v away", far)
					require.NoError(t, k.Release(bg))
					pass(time.Second)
				}
			})
		}
	}
}

// A distant node freezes. The next tie in which a key stays waits for it for twice its round trip, at most for the node
// timeout, and later ties do not wait. When the node has answered again it is waited for again.
func TestATieDoesNotWaitForAFrozenMaster(t *testing.T) {
	t.Parallel()
	for _, far := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond} {
		ties(t, far)
	}
}

func ties(t *testing.T, far time.Duration) {
	t.Helper()
	withAStaleKey(t, far, func(fl *testbed, l *Locker) {
		tie := func() (took time.Duration, err error) {
			var k *Lock
			took = elapsed(func() {
				k, _, err = (&acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: 10 * time.Second, patient: true}}).attempt(bg, nil)
			})
			if err == nil {
				require.NoError(t, k.Release(bg))
			}
			pass(2 * far)
			return took, err
		}
		_, _ = tie()
		took, err := tie()
		require.NoError(t, err)
		require.Equal(t, far, took)
		fl.masters[2].Freeze()
		took, err = tie()
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, min(2*far, maxNodeTimeout), took)
		for range 5 {
			took, err = tie()
			require.ErrorIs(t, err, ErrHeld)
			require.Equal(t, minTie, took)
		}
		fl.masters[2].Unfreeze()
		pass(time.Second)
		_, _ = tie()
		took, err = tie()
		require.NoError(t, err, "it has answered")
		require.Equal(t, far, took)
		fl.answered()
		require.Equal(t, 1, fl.keys("a"))
	})
}

// docs/dev/rules.md rule 22: several contenders have a near vote each. Each gets the lock in the end.
func TestContendersWithAVoteEachMakeProgressBesideADistantMaster(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		var lockers []*Locker
		for range 2 {
			lockers = append(lockers, fl.process().locker())
		}
		fl.masters[2].SetDelay(50 * time.Millisecond)
		ctx, cancel := context.WithTimeout(bg, 30*time.Second)
		defer cancel()
		for err := range together(2, func(i int) error {
			for range 20 {
				k, err := lockers[i].Acquire(ctx, "a", 10*time.Second)
				if err != nil {
					return err
				}
				if err := k.Release(ctx); err != nil {
					return err
				}
			}
			return nil
		}) {
			require.NoError(t, err)
		}
	})
}
