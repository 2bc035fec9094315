package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A node that answers an undo by an error still holds the key, and is sent the undo again. Until
// then the lock counts as being undone.

// overloaded makes releases fail, as while a script runs for too long.
func overloaded(masters ...*fakeredis.Master) (over func()) {
	for _, m := range masters {
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return "BUSY Redis is busy running a script", isScript(command.Release, cmd, args)
		})
	}
	return func() {
		for _, m := range masters {
			m.Hook(nil)
		}
	}
}

// docs/dev/hazards.md H97: a handle that was resumed earlier would be valid, and the undo would
// delete its keys.
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
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

// The undo ends with the TTL of its keys, whatever the node answers.
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
