package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// resting reports whether a lock has given up what it does not need for being held.
func (lk *Lock) resting() bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.exchange == nil
}

// A lock that is held for longer keeps little of its acquisition, and is extended,
// checked and released all the same.
func TestALockThatIsHeldForLongGivesUpWhatItNeedsToTalk(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithAutoExtend())
		pass(shrinkAfter - 1)
		require.False(t, k.resting())
		pass(1)
		require.True(t, k.resting())
		pass(time.Minute)
		require.NoError(t, k.Check(bg))
		require.NoError(t, k.Release(bg))
		synctest.Wait()
		require.Empty(t, fl.left())
	})
}

// It does not while an acquire is unanswered, which its undo has to look for.
func TestALockDoesNotRestWhileAnAcquireIsUnderWay(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		late := silent(nodes[2], wire.Acquire)
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		pass(3 * shrinkAfter)
		require.False(t, k.resting())
		late()
		pass(shrinkAfter)
		require.True(t, k.resting())
		require.NoError(t, k.Release(bg))
		require.Len(t, nodes[2].commands(wire.Release), 1)
	})
}

// What it remembers is which nodes hold nothing: those are spared the release.
func TestALockThatRestedSparesNodesThatRefusedIt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.masters[2].Set("a", "x", time.Hour)
		k := take(t, fl.locker(), "a", 10*time.Second)
		pass(2 * shrinkAfter)
		require.True(t, k.resting())
		require.Equal(t, []bool{true, true, false}, k.mayHold)
		fl.forget()
		require.NoError(t, k.Release(bg))
		synctest.Wait()
		require.Equal(t, 2, fl.count("EVALSHA"))
	})
}
