package redlock

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
)

// onClusters runs a test in a bubble on n Clusters of three masters.
func onClusters(t *testing.T, n int, f func(t *testing.T, clusters []*fakeredis.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var all []*fakeredis.Cluster
		for i := range n {
			c := fakeredis.NewCluster("n"+strconv.Itoa(i+1), 3, command.Slot)
			defer c.Close()
			all = append(all, c)
		}
		f(t, all)
	})
}

// clusterClient makes a Locker over Clusters, as another process would.
func clusterClient(t *testing.T, clusters []*fakeredis.Cluster, opts ...Option) *Locker {
	t.Helper()
	var nodes []*pool.Node
	for i, c := range clusters {
		nodes = append(nodes, clusterNode(t, c, "n"+strconv.Itoa(i+1)))
	}
	return lockerOver(t, nodes, opts...)
}

// clusterNode makes one client's node of a Cluster.
func clusterNode(t *testing.T, c *fakeredis.Cluster, name string) *pool.Node {
	t.Helper()
	n, err := pool.Open(pool.Config{Name: name, Kind: &cluster.Config{Addresses: c.Addresses()}, Dial: c.Dial, Clock: clock.Runtime()})
	require.NoError(t, err)
	return n
}

// lockerOver makes a Locker over nodes, and returns when they are connected.
func lockerOver(t *testing.T, nodes []*pool.Node, opts ...Option) *Locker {
	t.Helper()
	l, err := New(nodes, append([]Option{WithClock(clock.Runtime())}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { (&testbed{t: t}).close(l) })
	synctest.Wait()
	return l
}

func TestClustersCannotBeUnderTheGuard(t *testing.T) {
	_, err := Open([]string{"redis+cluster://127.0.0.1:1"}, WithRestartGuard(time.Second))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "node cluster@127.0.0.1:1 is a Redis Cluster, which cannot have WithRestartGuard")
	l, err := Open([]string{"redis+cluster://127.0.0.1:1", "redis://127.0.0.1:2"})
	require.NoError(t, err)
	require.NoError(t, l.Close(bg))
}

// docs/dev/rules.md rule 30.
func TestNamesOfSeveralSlotsAreRefusedWhereANodeIsACluster(t *testing.T) {
	onClusters(t, 1, func(t *testing.T, clusters []*fakeredis.Cluster) {
		l := clusterClient(t, clusters)
		_, err := l.TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "give them a common hash tag")
		_, err = l.AcquireAll(bg, []string{"{a}1", "{b}1"}, time.Minute)
		require.ErrorIs(t, err, ErrInvalid)
		k, err := l.TryAcquireAll(bg, []string{"{a}1", "{a}2"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		l = clusterClient(t, clusters, WithKeyPrefix("{app}:"))
		k, err = l.TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

func TestAFenceCounterHasTheSlotOfItsKey(t *testing.T) {
	onClusters(t, 3, func(t *testing.T, clusters []*fakeredis.Cluster) {
		l := clusterClient(t, clusters, WithFencing())
		last := int64(0)
		for range 3 {
			k, err := l.TryAcquireAll(bg, []string{"{x}", "x"}, time.Minute)
			require.NoError(t, err)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			require.NoError(t, k.Extend(bg, time.Minute))
			synctest.Wait()
			for _, c := range clusters {
				text, _ := c.Owner("x").Get("redlock:fence:{x}")
				require.Equal(t, strconv.FormatInt(last, 10), text)
			}
			claim, err := k.Detach()
			require.NoError(t, err)
			k, err = l.Resume(bg, claim)
			require.NoError(t, err)
			require.NoError(t, k.Extend(bg, time.Minute))
			require.NoError(t, k.Release(bg))
			synctest.Wait()
		}
		_, err := l.TryAcquire(bg, "a}b", time.Minute)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, `key "a}b" cannot have a fence counter in its slot`)
		k, err := clusterClient(t, clusters).TryAcquire(bg, "a}b", time.Minute)
		require.NoError(t, err, "without fencing it needs none")
		require.NoError(t, k.Release(bg))
	})
}

// In all Clusters the slot moves from master to master while one process holds and extends the lock
// and another waits for it.
func TestALockIsHeldAndPassedOnWhileItsSlotMoves(t *testing.T) {
	for _, quorum := range []int{1, 3} {
		onClusters(t, quorum, func(t *testing.T, clusters []*fakeredis.Cluster) {
			a, b := clusterClient(t, clusters), clusterClient(t, clusters)
			k, err := a.TryAcquire(bg, "x", time.Second)
			require.NoError(t, err)
			step := func(do func(c *fakeredis.Cluster)) {
				for _, c := range clusters {
					do(c)
				}
				require.NoError(t, k.Extend(bg, time.Second))
				require.NoError(t, k.Check(bg))
				_, err := b.TryAcquire(bg, "x", time.Second)
				require.ErrorIs(t, err, ErrHeld)
				synctest.Wait()
			}
			for round := range 3 {
				step(func(c *fakeredis.Cluster) { c.StartMigration("x", c.Masters[round]) })
				step(func(c *fakeredis.Cluster) { c.MigrateKey("x") })
				won := make(chan *Lock, 1)
				go func() {
					k, err := b.Acquire(bg, "x", time.Second)
					won <- k
					if err != nil {
						panic(err)
					}
				}()
				pass(100 * time.Millisecond)
				require.NoError(t, k.Release(bg))
				k = <-won
				a, b = b, a
				step(func(c *fakeredis.Cluster) { c.FinishMigration("x") })
				have := 0 // a Cluster that released it late may have refused the next attempt
				for _, c := range clusters {
					if _, there := c.Masters[round].Get("x"); there {
						have++
					}
				}
				require.Greater(t, have, quorum/2)
			}
			require.NoError(t, k.Release(bg))
			synctest.Wait()
			for _, c := range clusters {
				for _, m := range c.Masters {
					require.Empty(t, m.Keys())
				}
			}
		})
	}
}

// A script with several keys fails while their slot moves. That Cluster has no vote, and the others
// are a quorum.
func TestFencedLocksContinueWhileOneClusterMovesTheirSlot(t *testing.T) {
	onClusters(t, 3, func(t *testing.T, clusters []*fakeredis.Cluster) {
		l := clusterClient(t, clusters, WithFencing())
		last := int64(0)
		for i := range 6 {
			switch i {
			case 1:
				clusters[0].StartMigration("x", clusters[0].Masters[1])
			case 3:
				clusters[0].MigrateKey("redlock:fence:{x}")
			case 5:
				clusters[0].FinishMigration("x")
			}
			k, err := l.TryAcquire(bg, "x", time.Minute)
			require.NoError(t, err)
			require.Greater(t, k.Fence(), last)
			last = k.Fence()
			require.NoError(t, k.Extend(bg, time.Minute))
			require.NoError(t, k.Release(bg))
			synctest.Wait()
		}
	})
}

func TestALockOutlivesTheFailoverOfOneOfThreeClusters(t *testing.T) {
	onClusters(t, 3, func(t *testing.T, clusters []*fakeredis.Cluster) {
		a, b := clusterClient(t, clusters), clusterClient(t, clusters)
		k, err := a.TryAcquire(bg, "x", time.Second, WithAutoExtend())
		require.NoError(t, err)
		for _, c := range clusters {
			old, next := c.Owner("x"), c.Add()
			old.Stop()
			pass(2 * time.Second)
			c.TakeSlot(old, next, true)
			next.Del("x") // as if the key had never been replicated
			pass(2 * time.Second)
			if _, err := b.TryAcquire(bg, "x", time.Second); c == clusters[0] {
				require.ErrorIs(t, err, ErrHeld, "one Cluster has forgotten it, and two have not")
				require.NoError(t, k.Check(bg))
			}
		}
		// This is the documented cost: two Clusters of three have forgotten the lock, and nothing
		// keeps them from voting.
		require.ErrorIs(t, k.Release(bg), ErrLost)
	})
}

// docs/dev/hazards.md H52: an atomic slot migration carries expiries as instants. A server whose
// clock is ahead ends a lock early on its Cluster, which costs one vote of three. If two Clusters
// do so, Check reports it.
func TestALockSurvivesAnAtomicMigrationToAServerWhoseClockIsAhead(t *testing.T) {
	onClusters(t, 3, func(t *testing.T, clusters []*fakeredis.Cluster) {
		a, b := clusterClient(t, clusters), clusterClient(t, clusters)
		k := take(t, a, "x", 10*time.Second)
		valid := k.Remaining()
		move := func(c *fakeredis.Cluster, ahead time.Duration) {
			next := c.Add()
			next.SetClock(ahead)
			c.MoveAtomically("x", next)
		}
		move(clusters[0], 4*time.Second)
		require.Equal(t, 6*time.Second, clusters[0].Owner("x").TTL("x"))
		move(clusters[1], -4*time.Second)
		require.Equal(t, 14*time.Second, clusters[1].Owner("x").TTL("x"))
		pass(7 * time.Second)
		_, there := clusters[0].Owner("x").Get("x")
		require.False(t, there, "expired three seconds early")
		_, err := b.TryAcquire(bg, "x", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, k.Check(bg))
		require.Equal(t, valid-7*time.Second, k.Remaining(), "two Clusters keep it for that long")

		move(clusters[2], 2*time.Second)
		require.NoError(t, k.Check(bg))
		require.Less(t, k.Remaining(), time.Second, "a majority keeps it for no longer")
		require.Positive(t, k.Remaining())
		require.NoError(t, k.Extend(bg, 10*time.Second))
		require.Equal(t, valid, k.Remaining(), "an extension sends a TTL, which each server counts by itself")
		require.ErrorIs(t, k.Release(bg), nil)
	})
}

func TestHealthIsThatOfEveryMaster(t *testing.T) {
	onClusters(t, 1, func(t *testing.T, clusters []*fakeredis.Cluster) {
		l := clusterClient(t, clusters)
		require.NoError(t, l.Healthy(bg))
		clusters[0].Masters[2].Stop()
		synctest.Wait()
		err := l.Healthy(bg)
		require.True(t, errors.Is(err, ErrNoQuorum), "%v", err)
	})
}
