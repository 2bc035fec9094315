//go:build !race

package redlock

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/pool"
)

// missing are the optional rights that may be missing, of those that waiting needs and of some others.
var missing = map[string][]string{
	"none": nil, "publish": {"PUBLISH"}, "subscribe": {"SUBSCRIBE"}, "numsub": {"PUBSUB"}, "unsubscribe": {"UNSUBSCRIBE"},
	"channels": {"PUBLISH", "SUBSCRIBE"}, "all of these": {"PUBLISH", "SUBSCRIBE", "PUBSUB", "UNSUBSCRIBE"},
	"mget": {"MGET"}, "client": {"CLIENT"}, "time": {"TIME"}, "ping": {"PING"}, "eval": {"EVAL"}, "script load": {"SCRIPT"},
}

// What a node can't tell about other processes costs a process nothing that it would notice: no acquisition
// takes longer than two round trips and 5 ms, on any kind of node, whatever right is missing.
func TestALoneProcessWaitsForNobody(t *testing.T) {
	late.LeaveOut(t, "it measures times")
	t.Parallel()
	const trip = time.Millisecond // and as much back
	check := func(t *testing.T, l *Locker) {
		t.Helper()
		require.NoError(t, take(t, l, "first", time.Minute).Release(bg)) // scripts are loaded
		var mu sync.Mutex
		var slowest time.Duration
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for range 20 {
					began := time.Now()
					k, err := l.Acquire(bg, "own/"+strconv.Itoa(i), time.Minute)
					require.NoError(t, err)
					mu.Lock()
					slowest = max(slowest, time.Since(began))
					mu.Unlock()
					time.Sleep(time.Millisecond)
					require.NoError(t, k.Release(bg))
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, slowest, 4*trip+5*time.Millisecond, "each goroutine has a name of its own")

		r := race{hold: time.Millisecond}
		r.run([]*Locker{l}, 4, time.Second/5)
		require.LessOrEqual(t, slices.Max(r.gaps), 4*trip+5*time.Millisecond, "they share a name")
		require.NoError(t, r.h.overlap())
	}
	for what, denied := range missing {
		slow := func(m *fakeredis.Master) {
			m.Deny(denied...)
			m.SetDelay(trip)
		}
		t.Run("single masters without "+what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				fl.each(slow)
				check(fl.t, fl.locker())
			})
		})
		t.Run("masters behind Sentinels without "+what, func(t *testing.T) {
			if what == "time" {
				return // under the guard, which they need, no quarantine ends
			}
			onGroups(t, 3, func(t *testing.T, groups []*group) {
				for _, g := range groups {
					slow(g.master)
				}
				l := client(t, groups, &view{gone: map[string]bool{}}, WithRestartGuard(time.Minute))
				k, err := l.Acquire(bg, "warm-up", time.Minute) // waits for the first quarantine
				require.NoError(t, err)
				require.NoError(t, k.Release(bg))
				pass(time.Minute)
				check(t, l)
			})
		})
		t.Run("Clusters without "+what, func(t *testing.T) {
			onClusters(t, 3, func(t *testing.T, clusters []*fakeredis.Cluster) {
				for _, c := range clusters {
					for _, m := range c.Masters {
						slow(m)
					}
				}
				check(t, clusterClient(t, clusters))
			})
		})
		t.Run("a Cluster and two masters without "+what, func(t *testing.T) {
			onClusters(t, 1, func(t *testing.T, clusters []*fakeredis.Cluster) {
				nodes := []*pool.Node{clusterNode(t, clusters[0], "n1")}
				for _, m := range clusters[0].Masters {
					slow(m)
				}
				for _, name := range []string{"n2", "n3"} {
					m := fakeredis.New(name)
					t.Cleanup(m.Close)
					slow(m)
					n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: m.Dial, Clock: clock.Runtime()})
					require.NoError(t, err)
					nodes = append(nodes, n)
				}
				check(t, lockerOver(t, nodes))
			})
		})
	}
}

// Whatever right is missing, two processes that hold one name again and again both have their turns, whether a hold
// takes a part of a streak or more than one. Chance decides when a turn ends, so long rows are rare: the races are long,
// and the bounds are far from what is usual.
func TestProcessesTakeTurnsWhateverRightIsMissing(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of two processes")
	t.Parallel()
	for what, denied := range missing {
		for _, hold := range []time.Duration{waiting.MaxStreakTime / 3, waiting.MaxStreakTime * 6 / 5} {
			d, longest, least := 15*time.Second, 2500*time.Millisecond, 0.9
			if what == "publish" { // each turn ends by a poll of the other process, which takes place once a second
				d, longest, least = 60*time.Second, 15*time.Second, 0.8
			}
			t.Run(what+", holds of "+hold.String(), func(t *testing.T) {
				inBubble(t, 3, func(fl *testbed) {
					fl.each(func(m *fakeredis.Master) {
						m.Deny(denied...)
						m.SetDelay(100 * time.Microsecond)
					})
					r := race{hold: hold}
					r.run([]*Locker{fl.process().locker(), fl.process().locker()}, 4, d)
					row, turns := r.turns(2)
					fl.t.Logf("%v, longest row %d", turns, row)
					a, b := float64(turns[0]), float64(turns[1])
					require.Greater(fl.t, (a+b)*(a+b)/(2*(a*a+b*b)), least, "Jain's index of %v", turns)
					require.Less(fl.t, time.Duration(row)*hold, longest, "without the other process")
					require.NoError(fl.t, r.h.overlap())
				})
			})
		}
	}
}

// A process that may not subscribe is not counted, so a process that hands a name from one goroutine to the next does not
// know of it. It leaves the name to others from time to time.
func TestAProcessThatMayNotSubscribeHasTurnsBesideOneThatMay(t *testing.T) {
	late.LeaveOut(t, "it counts the turns of two processes")
	t.Parallel()
	for _, hold := range []time.Duration{waiting.MaxStreakTime / 10, waiting.MaxStreakTime * 6 / 5} {
		inBubble(t, 3, func(fl *testbed) {
			fl.each(func(m *fakeredis.Master) {
				m.Deny("SUBSCRIBE")
				m.SetDelay(100 * time.Microsecond)
			})
			may, mayNot := fl.process().locker(), fl.process().locker()
			held := take(fl.t, may, "a", time.Minute)
			_, err := mayNot.Acquire(bg, "a", time.Minute, WithWait(time.Second))
			require.ErrorIs(fl.t, err, ErrHeld, "it has tried to subscribe, and tries again after 30 s")
			require.NoError(fl.t, held.Release(bg))
			fl.each(func(m *fakeredis.Master) { m.Deny() })

			r := race{hold: hold}
			r.run([]*Locker{may, mayNot}, 4, 10*time.Second)
			row, turns := r.turns(2)
			fl.t.Logf("holds of %v: %v, longest row %d", hold, turns, row)
			require.Greater(fl.t, turns[1], 10, "%v", turns)
			require.Less(fl.t, time.Duration(row)*hold, 4*time.Second, "without the other process")
			require.NoError(fl.t, r.h.overlap())
		})
	}
}

// A process that hands a name on leaves it to others also if it seems to be alone. It does not listen for their releases then.
func TestAProcessThatSeemsToBeAloneDoesNotSubscribe(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		r := race{hold: time.Millisecond}
		r.run([]*Locker{l}, 4, time.Second)
		fl.each(func(m *fakeredis.Master) { require.Equal(fl.t, 1, m.Connections(), m.Name()) })
	})
}
