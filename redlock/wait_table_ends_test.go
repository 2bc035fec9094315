package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// However a hold ends, the next in line has the lock at once.
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
			for _, n := range k.l.nodes[:2] { // a quorum says that it is not ours
				c := &wire.Command{Request: &wire.Request{}, To: ignored{}}
				terms := wire.LockArgs{}
				terms.Set([]string{"a"}, k.Token())
				wire.NewRelease(c.Request, &terms)
				n.Submit(c)
			}
			_ = k.Check(bg)
		}},
	}
	for what, how := range ends {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := take(fl.t, l, "a", 2*time.Second, how.opts...)
				began := time.Now()
				done := wants(bg, l, "a")
				synctest.Wait()
				if how.end != nil {
					how.end(k)
				}
				require.Equal(fl.t, how.wait, gets(fl.t, done).at.Sub(began))
				_ = k.Release(bg)
			})
		})
	}
}

// ignored is whom an answer does not concern.
type ignored struct{}

func (ignored) Answer(*wire.Command, wire.Reply) {}

// What TryAcquire took is handed over as well.
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

// docs/dev/hazards.md H108: what stands for a minimum hold is neither handed over nor announced.
func TestAMinimumHoldIsNeitherHandedOverNorAnnounced(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{true, false} {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.locker(), fl.locker()
			k := take(fl.t, a, "a", time.Minute, WithMinHold(3*time.Second))
			began := time.Now()
			if local {
				b = a
			}
			done := waitingFor(bg, b, "a")
			require.NoError(fl.t, k.Release(bg))
			pass(2 * time.Second)
			require.Empty(fl.t, done)
			require.Zero(fl.t, announced(fl.masters[0]))
			require.InDelta(fl.t, 3, gets(fl.t, done).at.Sub(began).Seconds(), 0.01)
		})
	}
}

// A lock that is detached is not handed over, and its release by whoever resumed it is
// heard of.
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
			require.LessOrEqual(fl.t, gets(fl.t, done).at.Sub(released), 2*a.set.minBackoff)
		})
	}
}
