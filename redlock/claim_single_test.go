package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/hazards.md H97, here and below: one token never has two valid handles in a Locker.

func TestALockIsNotResumedBesideALiveHandle(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker(WithOwner("me"))
		k := take(t, l, "a", 10*time.Second)
		_, err := l.Resume(ctx, Claim{Names: k.Names(), Token: k.Token(), TTL: 10 * time.Second})
		require.ErrorIs(t, err, ErrAlreadyHeld)
		require.ErrorContains(t, err, `claim on "a" by me:…`)
		require.NotContains(t, err.Error(), k.Token())
		require.NoError(t, k.Check(ctx), "and the holder is not disturbed")

		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = l.Resume(ctx, claim)
		require.NoError(t, err)
		_, err = l.Resume(ctx, claim)
		require.ErrorIs(t, err, ErrAlreadyHeld)
		require.NoError(t, k.Release(ctx))
	})
}

func TestATokenThatIsBeingUndoneIsNotResumed(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		claim := Claim{Names: k.Names(), Token: k.Token(), TTL: 10 * time.Second}
		// The frozen node has not executed the release. The others got the key back from a log.
		fl.masters[0].Freeze()
		require.NoError(t, k.Release(ctx))
		fl.answered()
		fl.masters[1].Set("a", claim.Token, 9*time.Second)
		fl.masters[2].Set("a", claim.Token, 9*time.Second)
		_, err := l.Resume(ctx, claim)
		require.ErrorIs(t, err, ErrAlreadyHeld)
		fl.masters[0].Unfreeze()
		fl.answered()
		require.Empty(t, l.registry.locks)
	})
}

func TestALostLockIsNotResumedWhileItIsUndone(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		claim := Claim{Names: k.Names(), Token: k.Token(), TTL: 10 * time.Second}
		fl.masters[0].Freeze()
		fl.clock.Suspend(10 * time.Second)
		_, err := l.Resume(ctx, claim)
		require.ErrorIs(t, err, ErrAlreadyHeld, "not even settled")
		require.Error(t, k.Context().Err())
		_, err = l.Resume(ctx, claim)
		require.ErrorIs(t, err, ErrAlreadyHeld)
		fl.masters[0].Unfreeze()
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

// A log brought the key of a released lock back on a minority. (On a majority only the restart
// guard detects this: the nodes would be quarantined.)
func TestAReleasedClaimWhoseKeyCameBackIsRefused(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		claim := detached(t, l, 10*time.Second)
		k, err := l.Resume(ctx, claim)
		require.NoError(t, err)
		require.NoError(t, k.Release(ctx))
		fl.answered()
		fl.masters[1].Set("a", claim.Token, 9*time.Second)
		_, err = l.Resume(ctx, claim)
		require.ErrorIs(t, err, ErrLost)
		_, stands := fl.masters[1].Get("a")
		require.True(t, stands, "a Resume that fails undoes nothing")
	})
}

// Detach waits for an extension under way, at most for the node timeout. An extension that was not
// sent by then is never sent.
func TestDetachWaitsForAnExtensionUnderWay(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		a, b := fl.locker(), fl.locker()
		k := take(t, a, "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Clients()[0].HoldReplies()
		}
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(ctx, 20*time.Second) }()
		synctest.Wait()
		pass(100 * time.Millisecond)
		began := fl.clock.Now()
		claim, err := k.Detach()
		require.NoError(t, err)
		require.Equal(t, 400*time.Millisecond, fl.clock.Now().Sub(began))
		require.ErrorIs(t, <-extended, ErrDetached)
		k2, err := b.Resume(ctx, claim)
		require.NoError(t, err)
		for _, m := range fl.masters {
			m.Clients()[0].Release()
		}
		synctest.Wait()
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		require.Greater(t, k2.Remaining(), 19*time.Second, "by the TTL that the extension had left there")
		require.NoError(t, k2.Release(ctx))
		pass(time.Minute)
		require.Zero(t, fl.keys("a"))
		require.Empty(t, a.registry.locks)
	})
}

func TestAnAutoExtenderEndsWithDetach(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 9*time.Second, WithAutoExtend())
		pass(20 * time.Second)
		sent := fl.orders(command.Extend)
		require.Greater(t, sent, 9)
		_, err := k.Detach()
		require.NoError(t, err)
		pass(time.Minute)
		require.Equal(t, sent, fl.orders(command.Extend))
		require.Zero(t, fl.orders(command.Release))
		require.Zero(t, l.timers.Len())
		require.Zero(t, fl.keys("a"), "it died by its TTL")
	})
}

// An acquire that is sent after its lock was detached would leave a key that no handle releases.
func TestDetachGivesUpAnAcquireThatWasNotSent(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		var unsent *command.Command
		nodes[2].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op == command.Acquire {
				unsent = c
			}
			return c.Op == command.Acquire
		}
		detached(t, l, 10*time.Second)
		nodes[2].act(unsent)
		require.Empty(t, nodes[2].held)
	})
}

func TestAShareIsNotValidBesideADetachedLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		a, b := fl.locker(), fl.locker()
		k := take(t, a, "a", 10*time.Second)
		s := shared(t, k)
		work := s.Context()
		claim, err := k.Detach()
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(work), ErrDetached)
		require.LessOrEqual(t, s.Remaining(), time.Duration(0))
		k, err = b.Resume(ctx, claim)
		require.NoError(t, err)
		require.ErrorIs(t, s.Release(ctx), ErrDetached)
		require.ErrorIs(t, s.Extend(ctx, time.Second), ErrDetached)
		require.NoError(t, k.Check(ctx), "which had no say any more")
		require.NoError(t, k.Release(ctx))
	})
}

func TestOfAnEndedLockDetachSaysWhyItEnded(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker()
		k := take(t, l, "a", time.Second)
		pass(2 * time.Second)
		_, err := k.Detach()
		require.ErrorIs(t, err, ErrLost)
		k = take(t, l, "a", time.Second)
		require.NoError(t, k.Release(ctx))
		_, err = k.Detach()
		require.ErrorIs(t, err, ErrReleased)
		k = take(t, l, "a", 10*time.Second, WithMaxHold(time.Second))
		pass(time.Second)
		_, err = k.Detach()
		require.ErrorIs(t, err, ErrMaxHold)
	})
}
