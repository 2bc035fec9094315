package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/late"
)

// docs/dev/rules.md rule 3: one node must not be able to refuse a name for all. A near node holds a
// key that is never released. The others are a quorum, but farther away than one refusal is
// normally waited for. They must be waited for.
func TestANearMasterThatRefusesDoesNotOutvoteTheFarOnes(t *testing.T) {
	late.LeaveOut(t, "the near master must answer first, and the far ones within the node timeout")
	for _, far := range []time.Duration{time.Millisecond, 15 * time.Millisecond, 60 * time.Millisecond, 200 * time.Millisecond} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			fl.masters[0].Set("a", "somebody gone", time.Hour)
			fl.masters[1].SetDelay(far)
			fl.masters[2].SetDelay(far + 5*time.Millisecond)
			k, err := l.TryAcquire(bg, "a", 10*time.Second)
			require.NoError(t, err, "far %v", far)
			require.NoError(t, k.Release(bg))
			ctx, cancel := context.WithTimeout(bg, 5*time.Second)
			defer cancel()
			k, err = l.Acquire(ctx, "a", 10*time.Second)
			require.NoError(t, err, "far %v", far)
			require.NoError(t, k.Release(bg))
			fl.answered()
			require.Equal(t, 1, fl.keys("a"))
		})
	}
}

// The same with one near master that grants: a waiting Acquire reaches the far one.
func TestPatienceIsNowAndThenLongEnoughForAFarMaster(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // it refuses
		l := fl.locker()
		fl.masters[0].Set("a", "somebody gone", time.Hour)
		fl.masters[2].SetDelay(200 * time.Millisecond)
		ctx, cancel := context.WithTimeout(bg, 2*time.Minute)
		defer cancel()
		k, err := l.Acquire(ctx, "a", 10*time.Second)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/rules.md rule 22: two contenders have one vote each, and the node that could break the
// tie is frozen. The contender does not wait for it, whichever answer comes last.
func TestATieIsGivenUpSoonWhicheverAnswerComesFirst(t *testing.T) {
	for _, slow := range []int{0, 1} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2) // it is frozen
			l := fl.locker()
			fl.masters[0].Set("a", "the other one's", time.Hour)
			fl.masters[slow].SetDelay(5 * time.Millisecond)
			fl.masters[2].Freeze()
			took := elapsed(func() {
				_, _, err := (&acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: 10 * time.Second}}).attempt(bg, nil)
				require.ErrorIs(t, err, ErrHeld)
				require.True(t, isSplit(err))
				require.NotErrorIs(t, err, ErrNodeTimeout, "it was not that long")
			})
			require.Less(t, took, 100*time.Millisecond, "slow %d", slow)
			fl.answered()
			_, found := fl.masters[1].Get("a")
			require.False(t, found, "its own vote is given back")
		})
	}
}
