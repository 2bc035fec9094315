package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// resting reports whether a lock has dropped what it does not need while it is held.
func (lk *Lock) resting() bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.keys.acquire == nil
}

// A lock that was extended keeps little of its acquisition. It can still be checked and released.
func TestAHeldLockDropsItsAcquisition(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithAutoExtend())
		pass(time.Minute)
		require.True(t, k.resting())
		require.NoError(t, k.Check(bg))
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())
	})
}

// A lock keeps its acquisition while an acquire is unanswered, because the undo needs it.
func TestALockKeepsItsAcquisitionUntilAllNodesHaveAnswered(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		late := silent(nodes[2], command.Acquire)
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Extend(bg, time.Minute))
		require.False(t, k.resting())
		late()
		require.NoError(t, k.Extend(bg, time.Minute))
		require.True(t, k.resting())
		require.NoError(t, k.Release(bg))
		require.Len(t, nodes[2].commands(command.Release), 1)
	})
}

// The acquisition of a lock that has ended is constant.
func TestALockThatEndedKeepsItsAcquisition(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		late := silent(nodes[2], command.Acquire)
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		late()
		require.False(t, k.resting())
	})
}

// A lock that dropped its acquisition remembers which nodes hold nothing. They are sent no release.
func TestALockThatDroppedItsAcquisitionSkipsNodesThatRefusedIt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it refuses
		fl.masters[2].Set("a", "x", time.Hour)
		k := take(t, fl.locker(), "a", 10*time.Second)
		fl.answered()
		require.NoError(t, k.Extend(bg, 10*time.Second))
		require.True(t, k.resting())
		require.Equal(t, quorum.Nodes(0).With(2), k.keys.empty)
		fl.forget()
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Equal(t, 2, fl.count("EVALSHA"))
	})
}
