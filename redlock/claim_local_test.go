package redlock

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Otherwise Close would wait for a handle that no caller has, until its context ends.
func TestAResumeThatCloseOvertakesHoldsNothing(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		claim, err := takeAll(t, fl.locker(), names, time.Minute).Detach()
		require.NoError(t, err)
		l, p := fl.probed()
		p.within(command.Inspect, sync.OnceFunc(func() { l.registry.close() }))
		require.ErrorIs(t, second(l.Resume(bg, claim)), ErrClosed)
		require.Zero(t, booked(l))
		require.NoError(t, l.Close(bg))
		k, err := fl.locker().Resume(bg, claim)
		require.NoError(t, err, "the claim can still be used")
		require.NoError(t, k.Release(bg))
	})
}

// Otherwise the waiters of the process that resumed a lock would ask the nodes again and again, and would
// learn of its release only by an announcement.
func TestALockThatWasResumedIsHandedOver(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		claim, err := takeAll(t, fl.locker(), names, time.Minute).Detach()
		require.NoError(t, err)
		l := fl.locker()
		k, err := l.Resume(bg, claim)
		require.NoError(t, err)
		fl.forget()
		done := wants(bg, l, names...)
		pass(3 * time.Second)
		require.Zero(t, fl.count("SET", "EVALSHA", "PTTL"), "the waiter is queued behind the lock of its own process")
		require.NoError(t, k.Release(bg))
		next := gets(t, done).k
		require.True(t, next.holder.HandedOff)
		require.NoError(t, next.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())
	})
}

// Otherwise Resume would return a handle whose validity is over, without an error.
func TestAClaimWhoseTimeRunsOutDuringTheResumeIsTooLate(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, c *clocktest.Skewed) {
		claim, err := take(t, l, "a", time.Minute).Detach()
		require.NoError(t, err)
		nodes[2].script = func(_ *fakeNode, cmd *command.Command) bool {
			if cmd.Op == command.Inspect { // two nodes have answered, which is a quorum
				c.Jump(time.Minute)
			}
			return false
		}
		require.ErrorIs(t, second(l.Resume(bg, claim)), ErrTooLate)
	})
}

// Otherwise a caller would wait for the lock within which it resumed another one, and so for itself.
func TestALockThatWasResumedWithinAnotherBelongsToThatToo(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l := fl.locker()
		outer := take(t, l, "outer", time.Minute)
		claim, err := takeAll(t, fl.locker(), names, time.Minute).Detach()
		require.NoError(t, err)
		k, err := l.Resume(outer.Context(), claim)
		require.NoError(t, err)
		require.ErrorIs(t, second(l.TryAcquire(k.Context(), "outer", time.Minute)), ErrAlreadyHeld)
		require.NoError(t, k.Release(bg))
		require.NoError(t, outer.Release(bg))
	})
}
