package integration

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// busyWith makes a node run an endless script, so it answers every command with BUSY.
func busyWith(t *testing.T, n *redistest.Node) (over func()) {
	t.Helper()
	c := admin(t, n)
	do(t, c, "CONFIG", "SET", "lua-time-limit", "1")
	require.NoError(t, c.Send("EVAL", "while true do end", 0))
	require.NoError(t, c.Flush())
	await(t, "BUSY", func() bool {
		_, err := n.Try("GET", "x")
		return err != nil
	})
	return func() {
		_, err := n.Try("SCRIPT", "KILL")
		require.NoError(t, err)
		_, err = c.Receive()
		require.ErrorContains(t, err, "killed by user")
	}
}

// rate acquires and releases locks from several goroutines, and returns how many it makes a second.
func rate(t *testing.T, l *redlock.Locker, goroutines int, lasts time.Duration) float64 {
	t.Helper()
	var made atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for i := range goroutines {
		all.Go(func() {
			for time.Since(began) < lasts {
				k, err := l.TryAcquire(t.Context(), fmt.Sprint("busy", i), 30*time.Second)
				if err == nil && k.Release(t.Context()) == nil {
					made.Add(1)
				}
			}
		})
	}
	all.Wait()
	return float64(made.Load()) / time.Since(began).Seconds()
}

// asksTwiceASecond watches a node that is idle for this time, and fails if more than two commands a second are
// written to it, and two at the end: a question whether it still runs, and a check of its state.
func asksTwiceASecond(t *testing.T, to *pool.Node, lasts time.Duration) {
	t.Helper()
	began, before := time.Now(), to.Stats().Written
	time.Sleep(lasts)
	written, took := to.Stats().Written-before, time.Since(began)
	t.Logf("idle: %d commands in %v to the busy node", written, took)
	assert.LessOrEqual(t, float64(written), 2+2*took.Seconds())
}

// One of three nodes is busy with a script. The other nodes keep working, an idle client queries
// the busy one twice a second, and what the busy node granted before is undone when the script has
// ended. A fourth server, which is not a node, is as busy during the control, because both take one
// core.
func TestABusyNodeCostsTheOthersLittle(t *testing.T) {
	late.LeaveOut(t, "it measures throughput")
	const goroutines, round, idle = 64, 2 * time.Second, 5 * time.Second
	servers := masters(t, 4)
	nodes, control := servers[:3], servers[3]
	l, pools := openPools(t, nodes, func(*pool.Config) {})
	answered(t, l)

	at := pools[2]
	var before, start, during float64
	var over func()
	for try := 1; ; try++ { // the load of the machine may change between two rounds, but not every time
		over = busyWith(t, control)
		rate(t, l, goroutines, time.Second)
		before = rate(t, l, goroutines, round)
		over()
		over = busyWith(t, nodes[2])
		start = rate(t, l, goroutines, round)
		during = rate(t, l, goroutines, round)
		if during > before/2 || try == 3 {
			break
		}
		over()
		redistest.NoKeys(t, nodes, 5*time.Second)
		awaitFor(t, patience, "its vote", func() bool { return at.Stats().ParkedUndos == 0 && l.Healthy(t.Context()) == nil })
	}
	time.Sleep(2 * time.Second)
	parked := at.Stats().ParkedUndos
	asksTwiceASecond(t, at, idle)
	t.Logf("locks a second: %.0f with all nodes, %.0f in the first %v of BUSY, %.0f (%.0f %%) in the next; %d undos parked",
		before, start, round, during, 100*during/before, parked)
	assert.Greater(t, during, before/2, "an idle machine must reach 80 %%, a busy one less")
	assert.LessOrEqual(t, parked, goroutines, "only grants that were followed by BUSY are parked")
	assert.Zero(t, at.Stats().DroppedUndos)

	over()
	redistest.NoKeys(t, nodes, 5*time.Second)
	awaitFor(t, patience, "its vote", func() bool { return at.Stats().ParkedUndos == 0 && l.Healthy(t.Context()) == nil })
}

// A node grants many locks, and answers each undo with BUSY.
func TestParkedUndosAreSentWhenAScriptHasEnded(t *testing.T) {
	late.LeaveOut(t, "while a node is busy each of a thousand releases waits for the late one")
	const locks, idle = 1000, 4 * time.Second
	nodes := masters(t, 3)
	l, pools := openPools(t, nodes, func(*pool.Config) {})
	answered(t, l)
	held := make([]*redlock.Lock, locks)
	for i := range held {
		held[i] = acquired(t, l, fmt.Sprint("held", i), 5*time.Minute)
	}
	answered(t, l)
	over := busyWith(t, nodes[2])
	for _, k := range held {
		_ = k.Release(t.Context()) // on a busy machine it may exceed the node timeout
	}
	at := pools[2]
	await(t, "parked undos", func() bool { return at.Stats().ParkedUndos > locks/2 })
	time.Sleep(2 * time.Second)
	asksTwiceASecond(t, at, idle)
	t.Logf("%d undos parked", at.Stats().ParkedUndos)
	over()
	began := time.Now()
	redistest.NoKeys(t, nodes, 5*time.Second)
	t.Logf("all undone %v after the end of the script", time.Since(began).Round(time.Millisecond))
	awaitFor(t, patience, "the count", func() bool { return at.Stats().ParkedUndos == 0 })
	answered(t, l) // its answers come behind those of the undos, for which Close no longer waits so late
}
