package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

const trip = 5 * time.Millisecond

// latency returns how long an acquire and a release take in virtual time. Some masters are frozen,
// and the round trip to the others takes 5 ms.
func latency(t *testing.T, nodes, frozen int) (acquire, release time.Duration) {
	t.Helper()
	inBubble(t, nodes, func(fl *testbed) {
		if frozen > 0 {
			fl.lateAt(0)
		}
		l := fl.locker()
		base := goroutines()
		fl.each(func(m *fakeredis.Master) { m.SetDelay(trip) })
		for _, m := range fl.masters[:frozen] {
			m.Freeze()
		}
		var k *Lock
		var err error
		acquire = elapsed(func() { k, err = l.TryAcquire(bg, "a", time.Minute) })
		require.NoError(t, err)
		release = elapsed(func() { err = k.Release(bg) })
		require.NoError(t, err)
		require.Equal(t, base, goroutines(), "a goroutine waits for a frozen node")
		fl.thaw()
		time.Sleep(time.Second)
		require.Empty(t, fl.left())
		require.Equal(t, base, goroutines())
	})
	return acquire, release
}

// H20, H31, H55: a frozen minority costs no time and no goroutine. All nodes are sent the request
// at once, and the caller does not wait for the rest.
func TestAFrozenMinorityCostsNoTime(t *testing.T) {
	for _, c := range []struct{ nodes, frozen int }{{1, 0}, {3, 0}, {3, 1}, {4, 1}, {5, 1}, {5, 2}} {
		acquire, release := latency(t, c.nodes, c.frozen)
		require.Equal(t, trip, acquire, "%+v", c)
		require.Equal(t, trip, release, "%+v", c)
	}
}

// H20: a minority that answers slowly or is down costs no time either.
func TestASlowOrStoppedMinorityCostsNoTime(t *testing.T) {
	inBubble(t, 5, func(fl *testbed) {
		fl.lateAt(0) // it is slow
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.SetDelay(trip) })
		fl.masters[0].SetDelay(time.Second)
		fl.masters[3].Stop()
		for i := range 20 {
			took := elapsed(func() {
				k, err := l.TryAcquire(bg, "a", time.Minute)
				require.NoError(t, err)
				require.NoError(t, k.Release(bg))
			})
			require.Equal(t, 2*trip, took, "round %d", i)
		}
		time.Sleep(2 * time.Second)
		require.Empty(t, fl.left())
	})
}

// H55, H56: a master is frozen under a burst of locks. When it continues it executes all acquires
// and undos that it was sent. No key may be left after a second, also when its connections had been
// given up.
func TestAFrozenNodeThatContinuesIsLeftWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, frozen := range []time.Duration{100 * time.Millisecond, 4 * time.Second, 30 * time.Second} {
		for _, nodes := range []int{3, 1} { // with one master all attempts fail
			t.Run(fmt.Sprint(frozen, " of ", nodes), func(t *testing.T) {
				inBubble(t, nodes, func(fl *testbed) {
					l := fl.locker()
					base := goroutines()
					m := fl.masters[nodes-1]
					m.Freeze()
					for err := range together(10, func(i int) error { return burst(l, i) }) {
						require.NoError(fl.t, err)
					}
					time.Sleep(frozen)
					m.Unfreeze()
					time.Sleep(time.Second)
					require.Empty(fl.t, fl.left())
					require.Zero(fl.t, booked(l))
					require.Zero(fl.t, stats(l).Queued)
					require.Equal(fl.t, base, goroutines())
				})
			})
		}
	}
}

// burst acquires and releases its own lock ten times, or fails for lack of a quorum. The TTL is an
// hour.
func burst(l *Locker, i int) error {
	for n := range 10 {
		k, err := l.TryAcquire(bg, fmt.Sprint("lock", i, "/", n), time.Hour)
		if err != nil && len(l.nodes) > 1 {
			return err
		}
		if err == nil {
			err = k.Release(bg)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// H67: a thousand locks beside a frozen node leave no goroutine, no lease and a bounded queue. They
// leave nothing after the node continues.
func TestAThousandLocksBesideAFrozenNodeLeaveNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is frozen
		l := fl.locker()
		base := goroutines()
		fl.masters[2].Freeze()
		most := 0
		for i := range 1000 {
			k, err := l.TryAcquire(bg, fmt.Sprint("lock", i), time.Hour)
			require.NoError(t, err)
			require.NoError(t, k.Release(bg))
			most = max(most, stats(l).Queued)
			time.Sleep(10 * time.Millisecond)
		}
		// The frozen master keeps goroutines of its own for connections that it does not know to be
		// closed.
		require.LessOrEqual(t, goroutines(), base+4)
		require.Less(t, most, 1000)
		fl.thaw()
		time.Sleep(time.Second)
		require.Empty(t, fl.left())
		require.Zero(t, booked(l))
		require.Zero(t, stats(l).Queued)
		require.Equal(t, base, goroutines())
	})
}

// H42: quorums of one, two and four nodes. Two nodes tolerate no failure, four tolerate one.
func TestQuorumsOfOneTwoAndFourNodes(t *testing.T) {
	for _, c := range []struct{ nodes, tolerated int }{{1, 0}, {2, 0}, {3, 1}, {4, 1}, {5, 2}} {
		inBubble(t, c.nodes, func(fl *testbed) {
			l := fl.locker()
			for dead := range c.nodes {
				k, err := l.TryAcquire(bg, "a", time.Minute)
				require.Equal(t, dead <= c.tolerated, err == nil, "%d of %d dead", dead, c.nodes)
				if err == nil {
					require.NoError(t, k.Release(bg))
				} else {
					matches(t, err, ErrNoQuorum)
					require.ErrorContains(t, err, fmt.Sprintf("of %d votes, %d needed", c.nodes, c.nodes/2+1))
				}
				fl.answered()
				fl.masters[dead].Stop()
				time.Sleep(time.Second)
			}
		})
	}
}

// H9, H42: a tie of an even number of nodes is lost at once, because no token can reach a quorum.
// TryAcquire tries again until the keys have existed for long enough to be a holder's.
func TestATieIsARefusal(t *testing.T) {
	late.LeaveOut(t, "it measures how soon a tie is known")
	for _, n := range []int{2, 4} {
		inBubble(t, n, func(fl *testbed) {
			fl.lateAt(n - 1) // the refusals decide
			l := fl.locker()
			for _, m := range fl.masters[:n/2] {
				m.Set("a", "x", time.Minute)
			}
			require.Zero(t, elapsed(func() {
				_, err := lose(&acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: time.Minute}})
				require.ErrorIs(t, err, ErrHeld)
			}))
			require.LessOrEqual(t, elapsed(func() {
				err := tried(l)
				require.ErrorIs(t, err, ErrHeld)
				require.False(t, isSplit(err), "the same keys block throughout")
			}), maxNodeTimeout)
			fl.answered()
			require.Equal(t, n/2, fl.keys("a"))
		})
	}
}
