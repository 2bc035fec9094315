package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/late"
)

// amnesias are the ways in which a node may lose a lock that it granted. Each of them also deletes
// the lock.
var amnesias = map[string]func(t *testing.T, m *fakeredis.Master){
	"an empty restart": func(t *testing.T, m *fakeredis.Master) { require.NoError(t, m.Restart(false)) },
	"a restart with an older log": func(t *testing.T, m *fakeredis.Master) {
		m.Del("a")
		require.NoError(t, m.Restart(true))
	},
	"FLUSHALL":              func(_ *testing.T, m *fakeredis.Master) { m.FlushAll() },
	"the marker's deletion": func(_ *testing.T, m *fakeredis.Master) { m.Del("a"); m.Del(guard.Key) },
	"a failover and back": func(_ *testing.T, m *fakeredis.Master) {
		m.Del("a")
		m.SetInfo("master_replid2", "1111111111111111111111111111111111111111")
		for _, c := range m.Clients() {
			c.Drop()
		}
	},
	"a clock that was set back": func(_ *testing.T, m *fakeredis.Master) { m.Del("a"); restate(m, "q999999999999999") },
}

// docs/dev/hazards.md H48, H49, H51, H116: A holds on two of three nodes. The one that B also needs
// loses the lock. B is a process that never saw the earlier run.
func TestANodeThatForgotDoesNotVoteUntilWhatItForgotIsOver(t *testing.T) {
	late.LeaveOut(t, "in each step two given nodes decide")
	for what, forget := range amnesias {
		for _, guarded := range []bool{true, false} {
			inBubble(t, 3, func(fl *testbed) {
				fl.guarded()
				opts := []Option{WithRestartGuard(guardTTL)}
				if !guarded { // the negative control: an unguarded client ignores the marker
					opts = []Option{WithUnsafeNodes("n1", "n2", "n3")}
				}
				a, b := fl.process().locker(opts...), fl.process().locker(append(opts, withBackoff(50*time.Millisecond, 500*time.Millisecond))...)
				fl.masters[2].Set("a", "another's minority", 300*time.Millisecond)
				k := take(t, a, "a", guardTTL)
				pass(time.Second)
				require.Equal(t, 2, fl.keys("a"))
				forget(t, fl.masters[1])
				pass(100 * time.Millisecond)

				if !guarded {
					_, err := b.TryAcquire(bg, "a", time.Second)
					require.NoError(t, err, "%s: two hold it", what)
					require.Positive(t, k.Remaining())
					return
				}
				_, err := b.TryAcquire(bg, "a", time.Second)
				require.Error(t, err, what)
				fl.answered()
				require.True(t, isQuarantined(fl.masters[1]), what)
				ctx, cancel := context.WithTimeout(bg, 2*guardTTL)
				defer cancel()
				kb, err := b.Acquire(ctx, "a", time.Second)
				require.NoError(t, err, what)
				require.LessOrEqual(t, k.Remaining(), time.Duration(0), what)
				require.NoError(t, kb.Release(bg))
			})
		}
	}
}

// A reconnection to the same run is no reason for a quarantine.
func TestANodeThatIsReconnectedToIsNotQuarantined(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded()
		fl.each(func(m *fakeredis.Master) {
			for _, c := range m.Clients() {
				c.Drop()
			}
			m.FlushScripts()
		})
		pass(time.Second) // until they are connected again
		k, err := l.TryAcquire(bg, "a", time.Second)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		other := fl.process().locker(WithRestartGuard(guardTTL))
		k, err = other.TryAcquire(bg, "a", time.Second)
		require.NoError(t, err, "a client that is new to nodes that are not")
		require.NoError(t, k.Release(bg))
		fl.each(func(m *fakeredis.Master) { require.Equal(t, "ok", state(m)) })
	})
}

// While a minority is quarantined, acquisitions succeed. While a majority is, Acquire waits, and a
// call that does not wait fails at once.
func TestAnAcquisitionWaitsForQuarantinesThatLeaveNoQuorum(t *testing.T) {
	late.LeaveOut(t, "it measures the end of a quarantine")
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded()
		fl.masters[0].FlushAll()
		k := take(t, l, "a", time.Second)
		require.NoError(t, k.Release(bg))
		require.NoError(t, l.Healthy(bg))
		pass(5 * time.Second)
		fl.masters[1].FlushAll()

		began := l.now()
		_, err := l.TryAcquire(bg, "a", time.Second) // this attempt starts the quarantine
		require.ErrorIs(t, err, ErrQuarantined)
		require.NotErrorIs(t, err, ErrNoQuorum)
		require.Equal(t, guardTTL-5*time.Second, quarantines(t, err), "the first one's end is enough")
		_, err = l.Acquire(bg, "a", time.Second, WithFailFast())
		require.ErrorIs(t, err, ErrQuarantined)
		require.ErrorContains(t, err, "redlock doctor --admit")
		require.ErrorIs(t, l.Healthy(bg), ErrQuarantined)
		require.Equal(t, began, l.now(), "at once")

		ctx, cancel := context.WithTimeout(bg, 2*time.Second)
		defer cancel()
		_, err = l.Acquire(ctx, "a", time.Second)
		require.ErrorIs(t, err, ErrQuarantined)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		k, err = l.Acquire(bg, "a", time.Second)
		require.NoError(t, err)
		waited := l.now().Sub(began)
		require.GreaterOrEqual(t, waited, guardTTL-5*time.Second)
		require.Less(t, waited, guardTTL-4900*time.Millisecond)
		require.NoError(t, l.Healthy(bg))
		require.NoError(t, k.Release(bg))
	})
}
