package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// settled is how long it takes at most until no subscription is left: first the channel lingers,
// and then the connection.
const settled = waiting.Linger + 15*time.Second

// Waiters that give up leave the queue at once, at any position. When all have left, no
// subscription, goroutine or timer remains.
func TestWaitersThatGiveUpLeaveNothing(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		base := goroutines()
		var cancels []context.CancelFunc
		var all []<-chan won
		for range 9 {
			ctx, cancel := context.WithCancel(bg)
			defer cancel()
			cancels = append(cancels, cancel)
			all = append(all, waitingFor(ctx, b, "a"))
		}
		require.Len(t, subscribers(fl.masters[0]), 1)
		for left, i := range []int{4, 8, 0, 1, 7, 2, 6, 3, 5} { // in the middle, at the end, at the head, …
			cancels[i]()
			fl.answered()
			require.ErrorIs(t, (<-all[i]).err, context.Canceled)
			require.Equal(t, 8-left, b.waiting.Queued("a"))
		}
		fl.forget()
		pass(settled)
		requireOnePerNode(t, fl, "UNSUBSCRIBE")
		fl.each(func(m *fakeredis.Master) { require.Equal(t, 2, m.Connections(), "one for each process") })
		require.Equal(t, base, goroutines())
		quiet(t, b)
		fl.forget()
		pass(8 * time.Second)
		require.Zero(t, fl.count("PING", "SET", "SUBSCRIBE", "EVALSHA"))
		require.NoError(t, k.Release(bg))
		fl.answered()
		quiet(t, a)
	})
}

// A waiter that comes soon after finds the subscription in effect.
func TestASubscriptionLingers(t *testing.T) {
	late.LeaveOut(t, "a subscription lingers for less time than a node may be late")
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker(longBackoff)
		for range 5 {
			k := take(t, a, "a", time.Hour)
			done := waitingFor(bg, b, "a")
			require.NoError(t, k.Release(bg))
			require.NoError(t, gets(t, done).k.Release(bg))
			pass(waiting.AgainAfter / 2)
		}
		requireOnePerNode(t, fl, "SUBSCRIBE")
		require.Zero(t, fl.count("UNSUBSCRIBE"))
	})
}

// requireOnePerNode checks that each of three nodes got the command once. A connection may send the two
// channels, of the name and of all waiters, as one command or as two.
func requireOnePerNode(t *testing.T, fl *testbed, cmd string) {
	t.Helper()
	n := fl.count(cmd)
	require.GreaterOrEqual(t, n, 3)
	require.LessOrEqual(t, n, 6)
}

// Close ends waiters and subscriptions in every state.
func TestCloseEndsWaitersAndTheirSubscriptions(t *testing.T) {
	t.Parallel()
	for ms := range 40 {
		inBubble(t, 3, func(fl *testbed) {
			base := goroutines()
			fl.each(func(m *fakeredis.Master) { m.SetDelay(2 * time.Millisecond); m.Set("a", "x", time.Hour) })
			l := fl.process().locker()
			var all []<-chan won
			for range 3 {
				all = append(all, wants(bg, l, "a"))
			}
			time.Sleep(time.Duration(ms) * time.Millisecond)
			require.NoError(fl.t, l.Close(bg))
			for _, done := range all {
				require.ErrorIs(fl.t, (<-done).err, ErrClosed)
			}
			fl.close(l)
			fl.answered()
			require.Equal(fl.t, base, goroutines(), "closed after %d ms", ms)
			quietButTopics(fl.t, l)
		})
	}
}

func quietButTopics(t *testing.T, l *Locker) {
	t.Helper()
	names, _ := l.waiting.Size()
	require.Zero(t, names)
}

// A call that waits for a lock of its own context would never return. It fails at once, whether or
// not others wait.
func TestReentryFailsAtOnceBesideWaiters(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Hour)
		done := waitingFor(bg, l, "a")
		require.Zero(t, elapsed(func() {
			_, err := l.Acquire(k.Context(), "a", time.Minute)
			require.ErrorIs(t, err, ErrAlreadyHeld)
		}))
		share, err := l.Acquire(k.Context(), "a", time.Minute, WithShared())
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		fl.answered()
		require.Empty(t, done, "the end of a share hands nothing over")
		require.NoError(t, k.Release(bg))
		gets(t, done)
	})
}
