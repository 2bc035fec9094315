package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// ghostTTL is far longer than a test: a key that nobody takes back is seen.
const ghostTTL = 10 * time.Minute

// burst acquires and releases without a pause, on names that nobody else wants, so that a frozen node is frozen with commands under way.
type burst struct {
	locker *redlock.Locker
	over   atomic.Bool
	ended  sync.WaitGroup
	done   atomic.Int64 // acquired and released
	worst  atomic.Int64 // how long the longest took, in ns
}

func startBurst(t *testing.T, l *redlock.Locker, goroutines int) *burst {
	t.Helper()
	b := &burst{locker: l}
	t.Cleanup(b.end)
	for i := range goroutines {
		b.ended.Go(func() {
			for !b.over.Load() {
				b.once(fmt.Sprintf("ghost/%d", i))
			}
		})
	}
	return b
}

func (b *burst) once(name string) {
	began := time.Now()
	k, err := b.locker.TryAcquire(context.Background(), name, ghostTTL)
	if err == nil {
		err = k.Release(context.Background())
	}
	if err == nil {
		b.done.Add(1)
	}
	b.took(time.Since(began))
}

func (b *burst) took(d time.Duration) {
	for {
		worst := b.worst.Load()
		if int64(d) <= worst || b.worst.CompareAndSwap(worst, int64(d)) {
			return
		}
	}
}

// more waits until the burst has gone on for n rounds.
func (b *burst) more(t *testing.T, n int64) {
	t.Helper()
	from := b.done.Load()
	await(t, fmt.Sprintf("%d more acquired and released", n), func() bool { return b.done.Load() >= from+n })
}

// end waits for the burst's goroutines. What failed is not looked at: these tests are about what is left behind.
func (b *burst) end() {
	b.over.Store(true)
	b.ended.Wait()
}

// noGhosts waits until a node that was frozen, or cut off, has read everything that was meant for it, and is left with no key. Before
// that, a moment without keys says nothing: more commands may be waiting in a connection that the client has given up.
func noGhosts(t *testing.T, l *redlock.Locker, nodes []*redistest.Node, within time.Duration) {
	t.Helper()
	for _, n := range nodes {
		awaitFor(t, within, "one connection of ours is left on "+n.Addr(), func() bool { return ourConnections(t, n) == 1 })
	}
	connected(t, l) // behind everything that was sent before
	redistest.NoKeys(t, nodes, within)
}

// ourConnections counts a server's clients that are nodes of a Locker.
func ourConnections(t *testing.T, n *redistest.Node) int {
	t.Helper()
	list, err := redis.String(n.Do(t, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	ours := 0
	for field := range strings.FieldsSeq(list) {
		if field == "name=go-redlock" || field == "user=app" { // who may not set its name
			ours++
		}
	}
	return ours
}

func TestAFreezeInTheMiddleOfABurstLeavesNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	connected(t, l)
	for round := range 20 {
		frozen := nodes[round%len(nodes)]
		b := startBurst(t, l, 8)
		b.more(t, 20)
		frozen.Pause(t)
		b.more(t, 50)
		b.end()
		frozen.Unpause(t)
		noGhosts(t, l, nodes, time.Second)
	}
}

// frozenBeyondHardTimeout freezes a node under load until its connection has been given up, with acquires on it that nobody answered:
// the server may still execute them, behind an undo that comes by another connection.
func frozenBeyondHardTimeout(t *testing.T, l *redlock.Locker, frozen *redistest.Node, conn *pool.Node) {
	t.Helper()
	await(t, "the node is connected", func() bool { return conn.Stats().Connected == 1 })
	b := startBurst(t, l, 8)
	b.more(t, 20)
	frozen.Pause(t)
	await(t, "the silent connection is given up", func() bool { return conn.Stats().Connected == 0 })
	b.more(t, 50)
	b.end()
	frozen.Unpause(t)
}

func TestAFreezeBeyondTheHardTimeoutLeavesNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l, pools := openPools(t, nodes, func(cfg *pool.Config) { cfg.HardTimeout = time.Second })
	for i := range nodes {
		frozenBeyondHardTimeout(t, l, nodes[i], pools[i])
		noGhosts(t, l, nodes, time.Second)
		assert.Equal(t, int64(1), pools[i].Stats().Killed, "its old connection was killed before the undos went out")
	}
}

func TestAConnectionThatIsGivenUpUnderLoadStallsNobody(t *testing.T) {
	nodes := masters(t, 3)
	l, pools := openPools(t, nodes, func(cfg *pool.Config) { cfg.HardTimeout = 4 * time.Second })
	connected(t, l)
	b := startBurst(t, l, 64)
	b.more(t, 1000)
	nodes[2].Pause(t)
	await(t, "the silent connection is given up", func() bool { return pools[2].Stats().Connected == 0 })
	b.more(t, 1000)
	b.end()
	nodes[2].Unpause(t)
	// Thousands of commands died with the connection: to sort them out must not keep the others from their work.
	assert.Less(t, time.Duration(b.worst.Load()), redistest.Slack*time.Second, "the slowest acquire and release")
	noGhosts(t, l, nodes, 5*time.Second)
}

func TestAnAcquireThatArrivesLateIsNotExecutedBehindItsUndo(t *testing.T) {
	nodes := masters(t, 3)
	late := &network{}
	l, pools := openPools(t, nodes, func(cfg *pool.Config) { cfg.HardTimeout, cfg.Dial = time.Minute, late.dial })
	connected(t, l)
	late.arrivesLate(t, l, nodes, pools)
	noGhosts(t, l, nodes, time.Second)
	for _, n := range pools {
		assert.Equal(t, int64(1), n.Stats().Killed, "the connection that the acquires came by")
	}
}

func TestWithoutTheRightToKillUndosAreRepeated(t *testing.T) {
	nodes := masters(t, 3)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-client")
	}
	late := &network{}
	l, pools := openPools(t, nodes, func(cfg *pool.Config) {
		cfg.HardTimeout, cfg.Dial = time.Minute, late.dial
		cfg.Username, cfg.Password = "app", "secret"
	})
	connected(t, l)
	late.arrivesLate(t, l, nodes, pools)
	noGhosts(t, l, nodes, 3*time.Second) // they come at doubling intervals, of a second at most
	for _, n := range pools {
		assert.Zero(t, n.Stats().Killed)
	}
}

func TestAnAcquireThatWaitedForAFrozenMajorityLeavesNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	connected(t, l)
	for round := range 3 {
		nodes[0].Pause(t)
		nodes[1].Pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := l.Acquire(ctx, fmt.Sprintf("ghost/%d", round), ghostTTL)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		nodes[1].Unpause(t)
		nodes[0].Unpause(t)
		noGhosts(t, l, nodes, time.Second)
	}
}

func TestAKillInTheMiddleOfABurstLeavesNoKey(t *testing.T) {
	// What the node granted is there again after its return.
	nodes := masters(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	l := open(t, nodes)
	connected(t, l)
	for _, dead := range nodes[:2] {
		b := startBurst(t, l, 8)
		b.more(t, 20)
		dead.Kill(t)
		b.more(t, 50)
		b.end()
		dead.Restart(t)
		noGhosts(t, l, nodes, 2*time.Second) // a re-dial comes after half a second at most
	}
}

func TestKilledConnectionsLeaveNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	connected(t, l)
	b := startBurst(t, l, 8)
	for range 20 {
		b.more(t, 20)
		for _, n := range nodes {
			n.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		}
	}
	b.end()
	noGhosts(t, l, nodes, time.Second)
}
