package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/dev/hazards.md H53: two nodes' clocks are set back by an hour. The test lengthens their keys
// by as much. A waiter is told how long the keys will exist. The holder's validity does not change,
// and its end deletes the keys.
func TestNodesWhoseClocksAreSetBackKeepALockNoLongerThanItIsValid(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the others decide
		l, other := fl.locker(WithOwner("me")), fl.locker()
		k := takeAtOnce(t, l, "a", 10*time.Second)
		left := k.Remaining()
		for _, m := range fl.masters[:2] {
			m.Set("a", k.Token(), m.TTL("a")+time.Hour)
		}
		_, err := other.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, `held by "me" for 1h0m10s more`)
		require.NoError(t, k.Check(bg))
		require.Equal(t, left, k.Remaining(), "it is never raised")
		require.NoError(t, k.Extend(bg, 20*time.Second))
		require.Equal(t, l.set.validity(20*time.Second), k.Remaining())
		pass(k.Remaining())
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		fl.releasedEverywhere("a")
		require.NoError(t, take(t, other, "a", time.Second).Release(bg))
	})
}
