package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// Releases that come together are merged. Each has the result that it has by itself: a lock that
// another token has replaced is lost, and a waiter is woken by the announcement of its name.
func TestMergedReleasesOnRealServers(t *testing.T) {
	const locks = 300
	nodes := masters(t, 3)
	l, pools := openPools(t, nodes, func(*pool.Config) {})
	for _, awaited := range []bool{false, true} {
		var held []*redlock.Lock
		for i := range locks {
			held = append(held, acquired(t, l, fmt.Sprint("merged", i), ghostTTL))
		}
		answered(t, l)
		for _, n := range nodes[:2] {
			n.Do(t, "SET", "merged7", "another token", "PX", 60_000)
			n.Do(t, "DEL", "merged8")
			n.Do(t, "DEL", "merged9")
			n.Do(t, "RPUSH", "merged9", "no lock")
		}
		var w *waiter
		if awaited {
			w = waits(t, redistest.URLs(nodes), nodes, "merged11", true)
		}
		before := merges(pools)
		start := make(chan struct{})
		errs := make([]error, locks)
		var all sync.WaitGroup
		for i, k := range held {
			all.Go(func() {
				<-start
				errs[i] = k.Release(t.Context())
			})
		}
		released := time.Now()
		close(start)
		all.Wait()
		for i, err := range errs {
			if i >= 7 && i <= 9 {
				assert.ErrorIs(t, err, redlock.ErrLost, i)
			} else {
				assert.NoError(t, err, i)
			}
		}
		if awaited {
			took := w.gotWithin(t, released, pollBound)
			t.Log("woken after", took)
			require.NoError(t, w.lock.Release(t.Context()))
		}
		answered(t, l)
		require.Greater(t, merges(pools)-before, int64(locks), "of %d releases on three nodes", locks)
		for _, n := range nodes {
			require.Equal(t, n != nodes[2], len(n.Keys(t, "merged7")) == 1, "the other token's key stays")
			n.Do(t, "DEL", "merged7", "merged9")
		}
	}
	redistest.NoKeys(t, nodes, time.Second)
	for _, p := range pools {
		s := p.Stats()
		require.Zero(t, s.Unmerged)
		require.Zero(t, s.Violations)
	}
}

// Acquires with fencing and under the restart guard that come together are merged. Each name has one
// holder, and each of its fences is larger than the one before. A bad counter refuses its own name only.
func TestMergedAcquiresOnRealServers(t *testing.T) {
	const names, rounds = 200, 3
	for kind, opts := range map[string][]redlock.Option{
		"guard":             {redlock.WithRestartGuard(time.Minute)},
		"fencing":           {redlock.WithFencing()},
		"fencing and guard": {redlock.WithFencing(), redlock.WithRestartGuard(time.Minute)},
	} {
		t.Run(kind, func(t *testing.T) {
			nodes := masters(t, 3)
			fenced := kind != "guard"
			l, pools := openPools(t, nodes, func(*pool.Config) {}, append(opts, redlock.WithNodeTimeout(10*time.Second))...)
			if kind != "fencing" {
				mustAdmit(t, l, nodes)
			}
			taken := acquired(t, l, "taken", time.Minute, redlock.WithAutoExtend())
			if fenced {
				for _, n := range nodes {
					n.Do(t, "SET", "redlock:fence:bad0", "no number")
					n.Do(t, "RPUSH", "redlock:fence:bad1", "no number")
				}
			}
			before := merges(pools)
			var last [names]int64
			for range rounds {
				held, errs := tryAll(t, l, names, "bad0", "bad1", "taken")
				holders := holdersOf(t, nodes, held[:names])
				for i := range names {
					require.NoError(t, errs[i])
					if fenced {
						require.Greater(t, held[i].Fence(), last[i])
					}
					last[i] = held[i].Fence()
					require.GreaterOrEqual(t, holders[i], 2, "a majority has granted it")
				}
				require.ErrorIs(t, errs[names+2], redlock.ErrHeld)
				for i := range 2 {
					if fenced {
						require.ErrorContains(t, errs[names+i], "a fence counter holds no number")
					} else {
						require.NoError(t, errs[names+i])
					}
				}
				releaseAll(t, held)
			}
			require.NoError(t, taken.Release(t.Context()))
			answered(t, l)
			require.Greater(t, merges(pools)-before, int64(names*rounds), "of %d acquires on three nodes", names*rounds)
			for _, p := range pools {
				s := p.Stats()
				require.Zero(t, s.Unmerged)
				require.Zero(t, s.Violations)
			}
			for _, n := range nodes {
				n.Do(t, "FLUSHALL")
			}
		})
	}
}

// holdersOf returns how many nodes hold the token of each lock on one name. Each node is asked once.
func holdersOf(t *testing.T, nodes []*redistest.Node, held []*redlock.Lock) []int {
	t.Helper()
	names, on := make([]any, len(held)), make([]int, len(held))
	for i, k := range held {
		require.NotNil(t, k, i)
		names[i] = k.Names()[0]
	}
	for _, n := range nodes {
		tokens, err := redis.Strings(n.Do(t, "MGET", names...), nil)
		require.NoError(t, err)
		for i, k := range held {
			if tokens[i] == k.Token() {
				on[i]++
			}
		}
	}
	return on
}

// tryAll acquires "merged0" and so on, and more names, all at the same time.
func tryAll(t *testing.T, l *redlock.Locker, n int, more ...string) (held []*redlock.Lock, errs []error) {
	t.Helper()
	held, errs = make([]*redlock.Lock, n+len(more)), make([]error, n+len(more))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range held {
		all.Go(func() {
			name := fmt.Sprint("merged", i)
			if i >= n {
				name = more[i-n]
			}
			<-start
			held[i], errs[i] = l.TryAcquire(t.Context(), name, time.Minute)
		})
	}
	close(start)
	all.Wait()
	return held, errs
}

// releaseAll releases all locks at the same time.
func releaseAll(t *testing.T, held []*redlock.Lock) {
	t.Helper()
	var all sync.WaitGroup
	for _, k := range held {
		if k != nil {
			all.Go(func() { assert.NoError(t, k.Release(t.Context())) })
		}
	}
	all.Wait()
}

func merges(nodes []*pool.Node) (n int64) {
	for _, p := range nodes {
		n += p.Stats().Merged
	}
	return n
}
