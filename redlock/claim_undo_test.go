package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// A node that answers an undo by an error still holds what was to be undone, and is asked
// again. Until that is over the lock is being undone.

// busy makes releases fail, as behind a script that runs for too long.
func overloaded(masters ...*fakeredis.Master) (over func()) {
	for _, m := range masters {
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return "BUSY Redis is busy running a script", isScript(wire.Release, cmd, args)
		})
	}
	return func() {
		for _, m := range masters {
			m.Hook(nil)
		}
	}
}

// docs/dev/hazards.md H97: resumed before that, the handle would be valid, and its keys would be
// deleted under it.
func TestATokenThatIsStillBeingUndoneIsNotResumed(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		claim, err := take(t, l, "a", 10*time.Second).Detach()
		require.NoError(t, err)
		k, err := l.Resume(bg, claim)
		require.NoError(t, err)
		over := overloaded(fl.masters...)
		err = k.Release(bg)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorContains(t, err, "BUSY", "at once, and not when it is over")
		pass(100 * time.Millisecond)
		over()
		_, err = l.Resume(bg, claim)
		require.ErrorIs(t, err, ErrAlreadyHeld)
		pass(time.Second)
		require.Zero(t, fl.keys("a"))
		_, err = l.Resume(bg, claim)
		require.ErrorIs(t, err, ErrLost)
		require.Zero(t, booked(l))
	})
}

func TestCloseWaitsForAnUndoThatIsRepeated(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		over := overloaded(fl.masters[0])
		require.NoError(t, k.Release(bg))
		closed := make(chan error, 1)
		go func() { closed <- l.Close(bg) }()
		pass(5 * time.Second)
		require.Empty(t, closed, "a key of it stands")
		over()
		require.NoError(t, <-closed)
		synctest.Wait()
		require.Zero(t, fl.keys("a"))
	})
}

// It is not waited for when the keys have died by their TTL, whatever the node says.
func TestAnUndoThatNeverSucceedsEndsWithTheTTL(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 2*time.Second)
		defer overloaded(fl.masters[0])()
		require.NoError(t, k.Release(bg))
		require.Equal(t, 1, booked(l))
		ctx, cancel := context.WithTimeout(bg, 4*time.Second)
		defer cancel()
		require.NoError(t, l.Close(ctx))
		require.Zero(t, booked(l))
	})
}
