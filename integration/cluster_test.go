package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/redlock"
)

// onClusters opens a Locker over Clusters, as another process would.
func onClusters(t *testing.T, clusters []*redistest.Cluster, opts ...redlock.Option) (*redlock.Locker, []*pool.Node) {
	t.Helper()
	var nodes []*pool.Node
	for i, c := range clusters {
		var addresses []string
		for _, m := range c.Masters {
			addresses = append(addresses, c.Inside(m))
		}
		n, err := pool.Open(pool.Config{Name: "c" + strconv.Itoa(i+1), Kind: &cluster.Config{Addresses: addresses}, Dial: c.Dial})
		require.NoError(t, err)
		nodes = append(nodes, n)
	}
	l, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(busyTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l, nodes
}

func startClusters(t *testing.T, clusters, masters int) []*redistest.Cluster {
	t.Helper()
	all := make([]*redistest.Cluster, clusters)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = redistest.StartCluster(t, masters, false) })
	}
	wg.Wait()
	if t.Failed() || slices.Contains(all, nil) {
		t.FailNow()
	}
	networks := make([]*redistest.Network, clusters)
	for i, c := range all {
		networks[i] = c.Network
	}
	redistest.Late(t, networks...)
	return all
}

// left returns the lock keys on all masters of a Cluster.
func left(t *testing.T, c *redistest.Cluster) (all []string) {
	t.Helper()
	for _, m := range c.Masters {
		all = append(all, lockKeys(t, m)...)
	}
	return all
}

// Contenders of two processes acquire, extend and release a lock, and some wait for it, while its
// slot moves from master to master and back. The test uses one Cluster, where a single reply
// without a vote is an error, and three Clusters that form a quorum.
func TestLocksContinueWhileTheirSlotMoves(t *testing.T) {
	clusters := startClusters(t, 3, 2)
	for name, c := range map[string]struct {
		clusters []*redistest.Cluster
		opts     []redlock.Option
	}{
		"one":           {clusters[:1], nil},
		"three":         {clusters, nil},
		"three, fenced": {clusters, []redlock.Option{redlock.WithFencing()}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var inside, holds, redirects atomic.Int64
			var last atomic.Int64
			var contenders sync.WaitGroup
			var nodes []*pool.Node
			for range 2 {
				timeout := patience // each extension must be confirmed by a quorum
				if late.On() {
					timeout = busyTimeout // some attempts wait for all of it
				}
				l, own := onClusters(t, c.clusters, append(c.opts, redlock.WithNodeTimeout(timeout))...)
				nodes = append(nodes, own...)
				for range 2 {
					contenders.Go(func() {
						for ctx.Err() == nil {
							k, err := l.Acquire(ctx, name, ghostTTL)
							if errors.Is(err, context.Canceled) {
								return
							}
							if !assert.NoError(t, err) {
								return
							}
							assert.Equal(t, int64(1), inside.Add(1), "two contenders hold the lock")
							if f := k.Fence(); len(c.opts) > 0 {
								assert.Greater(t, f, last.Swap(f))
							}
							assert.NoError(t, k.Extend(t.Context(), ghostTTL))
							time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
							assert.NoError(t, k.Check(t.Context()))
							inside.Add(-1)
							holds.Add(1)
							assert.NoError(t, k.Release(t.Context()))
						}
					})
				}
			}
			more := func() {
				n := holds.Load()
				await(t, "the lock was held three more times", func() bool { return holds.Load() >= n+3 || t.Failed() })
			}
			more()
			for range 2 {
				for _, one := range c.clusters {
					to := one.Masters[0]
					if one.Owner(t, name) == to {
						to = one.Masters[1]
					}
					one.MoveSlot(t, name, to, more)
				}
			}
			stop()
			contenders.Wait()
			for _, n := range nodes {
				redirects.Add(n.Stats().Redirects)
			}
			assert.Positive(t, redirects.Load())
			t.Logf("%d holds, %d commands redirected", holds.Load(), redirects.Load())
			for _, one := range c.clusters {
				await(t, "no key is left", func() bool { return len(left(t, one)) == 0 })
			}
		})
	}
}

// A master dies, and its replica takes over its slots. The Cluster votes again without
// intervention.
func TestAFailoverWithinAClusterIsFollowed(t *testing.T) {
	c := redistest.StartCluster(t, 3, true)
	l, nodes := onClusters(t, []*redistest.Cluster{c})
	name := nameOn(t, c, c.Masters[0])
	k := acquired(t, l, name, ghostTTL) // a failover may take longer than a minute
	await(t, "the replica has the key", func() bool { return len(lockKeys(t, c.Replica)) == 1 })
	c.ReplaceMasters(t) // late, since a busy machine may cause other failovers
	c.Masters[0].Kill(t)
	_, err := l.TryAcquire(t.Context(), name, time.Minute)
	require.Error(t, err)
	awaitFor(t, failoverWithin, "the replica has the slots", func() bool { return c.Owner(t, name) == c.Replica })
	live := []*redistest.Node{c.Masters[1], c.Masters[2], c.Replica}
	for _, m := range live {
		m.Do(t, "CONFIG", "SET", "cluster-node-timeout", 10_000)
	}
	// A server that was late meanwhile may count as failed for twice the timeout.
	awaitFor(t, failoverWithin, "all servers that are left know each other as healthy", func() bool {
		return !slices.ContainsFunc(live, func(m *redistest.Node) bool { return !knowsHealthy(t, c, m, live) })
	})
	awaitFor(t, failoverWithin, "the lock is extended there", func() bool { return k.Extend(t.Context(), ghostTTL) == nil })
	await(t, "the lock is held there", func() bool {
		_, err := l.TryAcquire(t.Context(), name, time.Minute)
		require.Error(t, err)
		return errors.Is(err, redlock.ErrHeld)
	})
	released(t, k)
	assert.Empty(t, lockKeys(t, c.Replica))
	released(t, acquired(t, l, name, time.Minute))
	assert.Equal(t, 3, nodes[0].Stats().Masters)

	c.Masters[0].Restart(t) // as a replica, which receives no commands
	released(t, acquired(t, l, name, time.Minute))
}

// knowsHealthy reports whether a server of a Cluster says that the Cluster is healthy, and so is each of the given
// servers.
func knowsHealthy(t *testing.T, c *redistest.Cluster, m *redistest.Node, all []*redistest.Node) bool {
	t.Helper()
	info, err := redis.String(m.Do(t, "CLUSTER", "INFO"), nil)
	require.NoError(t, err)
	list, err := redis.String(m.Do(t, "CLUSTER", "NODES"), nil)
	require.NoError(t, err)
	healthy := 0
	for line := range strings.Lines(list) { // ID, address, flags, …
		words := strings.Fields(line)
		address, _, _ := strings.Cut(words[1], "@")
		if slices.Contains(all, c.Node(address)) && !strings.Contains(words[2], "fail") { // fail, fail?
			healthy++
		}
	}
	return strings.Contains(info, "cluster_state:ok") && healthy == len(all)
}

// A manual failover, which clients only see by MOVED, loses nothing.
func TestAManualFailoverWithinAClusterGoesUnnoticed(t *testing.T) {
	c := redistest.StartCluster(t, 3, true)
	l, _ := onClusters(t, []*redistest.Cluster{c})
	name := nameOn(t, c, c.Masters[0])
	k := acquired(t, l, name, ghostTTL) // a failover may take longer than a minute
	await(t, "the replica has the key", func() bool { return len(lockKeys(t, c.Replica)) == 1 })
	var asked time.Time
	awaitFor(t, failoverWithin, "the replica has the slots", func() bool {
		if c.Owner(t, name) == c.Replica {
			return true
		}
		if time.Since(asked) > 10*time.Second { // a server gives up after five
			asked = time.Now()
			_, _ = c.Replica.Try("CLUSTER", "FAILOVER") // it may be the master by now
		}
		return false
	})
	awaitFor(t, failoverWithin, "the lock is extended there", func() bool { return k.Extend(t.Context(), ghostTTL) == nil })
	released(t, k)
	released(t, acquired(t, l, name, time.Minute))
	assert.Empty(t, lockKeys(t, c.Replica))
}

// nameOn returns a name whose slot a server owns.
func nameOn(t *testing.T, c *redistest.Cluster, n *redistest.Node) string {
	t.Helper()
	for i := range 100 {
		if name := "x" + strconv.Itoa(i); c.Owner(t, name) == n {
			return name
		}
	}
	require.FailNow(t, "no name with a slot of the server")
	return ""
}

// A release is heard, whichever of the masters had the lock.
func TestAReleaseIsHeardThroughoutACluster(t *testing.T) {
	const wanted, most = 4, 7 // polls may be faster on a busy machine
	c := redistest.StartCluster(t, 3, false)
	holder, _ := onClusters(t, []*redistest.Cluster{c})
	listening := func(name string) (n int64) {
		for _, m := range c.Masters {
			n += listeners(t, m, name)
		}
		return n
	}
	for i, m := range c.Masters {
		name := nameOn(t, c, m)
		heard := 0
		for round := 0; heard < wanted; round++ {
			require.Less(t, round, most, "a lock on master %d", i+1)
			k := acquired(t, holder, name, time.Minute)
			events := make(chan string, 1000)
			until := func(wanted string) (before string) {
				t.Helper()
				for e := range events {
					if e == wanted {
						return before
					}
					require.NotEqual(t, "acquired", e, "the last event of an Acquire, also of one that failed")
					before = e
				}
				return ""
			}
			l, _ := onClusters(t, []*redistest.Cluster{c}, redlock.WithTrace(&redlock.Trace{
				Woken:    func(e redlock.WaitEvent) { events <- e.Reason },
				Waiting:  func(redlock.WaitEvent) { events <- "waiting" },
				Acquired: func(redlock.WaitEvent) { events <- "acquired" },
			}))
			got := make(chan *redlock.Lock, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), redistest.Slack*patience)
				defer cancel()
				k, err := l.Acquire(ctx, name, time.Minute)
				assert.NoError(t, err)
				got <- k
			}()
			await(t, "the waiter listens", func() bool { return listening(name) > 0 })
			// It is told of releases when it has received the confirmation, too. Then it polls, and waits again without
			// a wakeup. Before that, each wait follows an attempt, and a wakeup precedes all but the first.
			until("waiting")
			for woken := "not told"; woken != ""; {
				woken = until("waiting")
			}
			released(t, k)
			k = <-got
			require.NotNil(t, k)
			if until("acquired") == "message" {
				heard++
			}
			released(t, k)
			await(t, "the waiter does not listen any more", func() bool { return listening(name) == 0 })
		}
	}
}

func TestTheDoctorSaysWhatAClusterIs(t *testing.T) {
	c := redistest.StartCluster(t, 3, true)
	l, _ := onClusters(t, []*redistest.Cluster{c})
	await(t, "the Cluster is healthy", func() bool { return l.Healthy(t.Context()) == nil })
	r := examined(t, l)
	require.False(t, r.Failed(), "%v", r.All())
	var texts []string
	for _, f := range r.Nodes[0].Findings {
		texts = append(texts, f.Text)
	}
	assert.Contains(t, texts, "c1 is a Redis Cluster of 3 masters, and one vote")
	assert.Equal(t, 1, r.Nodes[0].Replicas)
	_, err := l.TryAcquireAll(t.Context(), []string{"a", "b"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	released(t, acquired(t, l, "{a}", time.Minute))
}
