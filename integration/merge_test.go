package integration

import (
	"fmt"
	"sync"
	"testing"
	"time"

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
			held = append(held, acquired(t, l, fmt.Sprint("merged", i), time.Minute))
		}
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

func merges(nodes []*pool.Node) (n int64) {
	for _, p := range nodes {
		n += p.Stats().Merged
	}
	return n
}
