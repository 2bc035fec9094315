package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// However a hold ends, the next waiter gets the lock at once.
func TestEveryEndOfAHoldHandsItOver(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		opts []LockOption
		end  func(k *Lock)
		wait time.Duration
	}{
		"release":      {end: func(k *Lock) { _ = k.Release(bg) }},
		"validity":     {wait: worth(2 * time.Second)},
		"maximum hold": {opts: []LockOption{WithMaxHold(time.Second)}, wait: time.Second},
		"loss": {end: func(k *Lock) {
			for _, n := range k.l.nodes[:2] { // a quorum disowns the lock
				c := &command.Command{Request: &command.Request{}, To: ignored{}}
				terms := command.LockArgs{}
				terms.Set([]string{"a"}, k.Token())
				command.NewRelease(c.Request, &terms)
				require.NoError(t, n.Submit(c, nil))
			}
			_ = k.Check(bg)
		}},
	}
	for what, how := range ends {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := takeAtOnce(fl.t, l, "a", 2*time.Second, how.opts...)
				done := wants(bg, l, "a")
				synctest.Wait()
				if how.end != nil {
					how.end(k)
				}
				began := time.Now() // Check waits for a late master before it ends the hold
				require.Equal(fl.t, how.wait, gets(fl.t, done).at.Sub(began))
				_ = k.Release(bg)
			})
		})
	}
}

// ignored receives answers that the test does not need.
type ignored struct{}

func (ignored) Answer(*command.Command, command.Reply) {}

// A lock of TryAcquire is also handed to the next waiter.
func TestALockOfTryAcquireIsHandedOver(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		first, second := waitingFor(bg, l, "a"), waitingFor(bg, l, "a")
		require.ErrorIs(t, tried(l), ErrHeld)
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, first).k.Release(bg))
		require.NoError(t, gets(t, second).k.Release(bg))
		require.NoError(t, take(t, l, "a", time.Minute).Release(bg))
	})
}

// docs/dev/hazards.md H108: a key that remains for a minimum hold is not handed to a waiter. The waiter is told when it ends,
// which would be up to a second before its next poll. Without that right the poll finds it.
func TestAMinimumHoldIsNotHandedOverAndItsEndIsAnnounced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		local, mute bool
		hold, late  time.Duration
	}{
		{true, false, 400 * time.Millisecond, 5 * time.Millisecond},
		{false, false, 400 * time.Millisecond, 5 * time.Millisecond},
		{false, false, 3 * time.Second, 5 * time.Millisecond},
		{false, true, 3 * time.Second, 5 * time.Millisecond},
		{false, true, 400 * time.Millisecond, waiting.MaxPollPause},
	} {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.locker(), fl.locker()
			if c.mute {
				fl.each(func(m *fakeredis.Master) { m.Deny("PUBLISH") })
			}
			began := time.Now()
			k := take(fl.t, a, "a", time.Minute, WithMinHold(c.hold))
			if c.local {
				b = a
			}
			done := waitingFor(bg, b, "a")
			require.NoError(fl.t, k.Release(bg))
			held := gets(fl.t, done).at.Sub(began)
			require.GreaterOrEqual(fl.t, held, c.hold, "%+v", c)
			require.LessOrEqual(fl.t, held, c.hold+c.late+lateness(), "%+v", c)
		})
	}
}

// A detached lock is not handed to a waiter. When its next holder releases it, the waiter is
// notified.
func TestADetachedLockIsWaitedForUntilItsNextHolderReleasesIt(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{true, false} {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.locker(), fl.locker()
			k := take(fl.t, a, "a", time.Hour)
			done := waitingFor(bg, a, "a")
			claim, err := k.Detach()
			require.NoError(fl.t, err)
			pass(3 * time.Second)
			require.Empty(fl.t, done)
			if local {
				b = a
			}
			k, err = b.Resume(bg, claim)
			require.NoError(fl.t, err)
			pass(3 * time.Second)
			require.Empty(fl.t, done)
			released := time.Now()
			require.NoError(fl.t, k.Release(bg))
			require.LessOrEqual(fl.t, gets(fl.t, done).at.Sub(released), 2*a.set.backoff.Min)
		})
	}
}
