package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A key is deleted by hand on the node that two quorums share, so there are two holders at once.
// Their fences must differ and be in the order of the acquisitions.
func TestTwoHoldersThatOverlapHaveNumbersInOrder(t *testing.T) {
	for name, skewed := range map[string]func(fl *testbed){
		"nodes that counted alike":    func(*testbed) {},
		"nodes that counted apart":    func(fl *testbed) { fl.apart() },
		"the later quorum was behind": func(fl *testbed) { countTo(fl.masters[0], time.Hour) },
		"the later quorum was ahead":  func(fl *testbed) { countTo(fl.masters[2], time.Hour) },
	} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(0) // the others decide who is the second
			a, b := fl.locker(WithFencing()), fl.process().locker(WithFencing())
			skewed(fl)
			down(fl.masters[2])
			first := take(t, a, "a", time.Minute)
			synctest.Wait() // until the third node has refused it
			up(fl.masters[2])
			require.True(t, fl.masters[1].Del("a"))
			second := take(t, b, "a", time.Minute)
			require.Positive(t, first.Remaining(), "they overlap")
			require.Greater(t, second.Fence(), first.Fence(), name)
			require.True(t, AcceptFence(first.Fence(), first.Token(), second.Fence(), second.Token()))
			require.False(t, AcceptFence(second.Fence(), second.Token(), first.Fence(), first.Token()))
		})
	}
}

// The first attempt loses the shared node between its grant and its confirmation, and the second
// becomes a holder meanwhile. The first must not become a holder any more.
func TestAnAttemptThatWasOvertakenBeforeItsConfirmationIsNoHolder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // what happens to the others is determined
		a, b := fl.locker(WithFencing()), fl.process().locker(WithFencing())
		countTo(fl.masters[0], time.Hour)
		asked := downFor(fl.masters[2])
		var second *Lock
		var secondErr error
		onConfirm(fl.masters[1], func(int64) {
			up(fl.masters[1])
			<-asked // otherwise n3 would grant the first one's request after all
			up(fl.masters[2])
			fl.masters[1].Del("a")
			second, secondErr = b.TryAcquire(bg, "a", time.Minute)
		})
		_, err := a.TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrTooLate)
		require.NoError(t, secondErr)
		fl.answered()
		require.NoError(t, second.Check(bg))
		require.Less(t, second.Fence(), counter(t, fl.masters[0], "a"), "it was never told of the first's number")
	})
}
