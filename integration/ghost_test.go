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
	"github.com/quorumlock/go-redlock/integration/tcpfault"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// ghostTTL is far longer than a test, so a key that is not undone is detected.
const ghostTTL = 10 * time.Minute

// burst acquires and releases uncontended names without a pause, so a node is always frozen with
// commands in flight.
type burst struct {
	locker *redlock.Locker
	over   atomic.Bool
	ended  sync.WaitGroup
	done   atomic.Int64 // acquire and release
	worst  atomic.Int64 // the maximum time of one operation, in ns

	stall time.Duration // the control: how long the machine stopped at most; to be read after end
}

func startBurst(t *testing.T, l *redlock.Locker, goroutines int) *burst {
	t.Helper()
	b := &burst{locker: l}
	t.Cleanup(b.end)
	b.ended.Go(func() {
		for last := time.Now(); !b.over.Load(); {
			time.Sleep(10 * time.Millisecond)
			now := time.Now()
			b.stall, last = max(b.stall, now.Sub(last)), now
		}
	})
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

// more waits until the burst has made n more rounds.
func (b *burst) more(t *testing.T, n int64) {
	t.Helper()
	from := b.done.Load()
	await(t, fmt.Sprintf("%d more acquired and released", n), func() bool { return b.done.Load() >= from+n })
}

// end waits for the goroutines of the burst. It ignores their errors: these tests check what is
// left on the nodes.
func (b *burst) end() {
	b.over.Store(true)
	b.ended.Wait()
}

// noGhosts waits until a node that was frozen or cut off has read all commands for it and has no
// key. A moment without keys before that proves nothing, because more commands may wait in a
// connection that the client has closed.
func noGhosts(t *testing.T, l *redlock.Locker, nodes []*redistest.Node) {
	t.Helper()
	for _, n := range nodes {
		await(t, "one connection of ours is left on "+n.Addr(), func() bool { return ourConnections(t, n) == 1 })
	}
	answered(t, l) // after all commands that were sent before
	redistest.NoKeys(t, nodes, patience)
}

// ourConnections counts the connections of Lockers on a server.
func ourConnections(t *testing.T, n *redistest.Node) int {
	t.Helper()
	list, err := redis.String(n.Do(t, "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	ours := 0
	for field := range strings.FieldsSeq(list) {
		if field == "name=go-redlock" || field == "user=app" { // a user that may not set the name
			ours++
		}
	}
	return ours
}

func TestAFreezeInTheMiddleOfABurstLeavesNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	rounds := 20
	if late.On() { // the burst then waits for the late node
		rounds = 3
	}
	for round := range rounds {
		frozen := nodes[round%len(nodes)]
		b := startBurst(t, l, 8)
		b.more(t, 20)
		frozen.Pause(t)
		b.more(t, 50)
		b.end()
		frozen.Unpause(t)
		noGhosts(t, l, nodes)
	}
}

// frozenBeyondHardTimeout freezes a node under load until its connection is closed with unanswered
// acquires. The server may still execute them, after an undo that comes by another connection.
func frozenBeyondHardTimeout(t *testing.T, l *redlock.Locker, frozen *redistest.Node, conn *pool.Node) {
	t.Helper()
	await(t, "the node is connected", func() bool { return conn.Stats().Connected == 1 })
	b := startBurst(t, l, 8)
	b.more(t, 20)
	frozen.Pause(t)
	await(t, "the silent connection is closed", func() bool { return conn.Stats().Connected == 0 })
	b.more(t, 50)
	b.end()
	frozen.Unpause(t)
}

func TestAFreezeBeyondTheHardTimeoutLeavesNoKey(t *testing.T) {
	late.LeaveOut(t, "its hard timeout is as short as a delay, so the late node's connection would end, too")
	nodes := masters(t, 3)
	l, pools := openPools(t, nodes, func(cfg *pool.Config) { cfg.HardTimeout = time.Second })
	for i := range nodes { // the old connection is killed, or the server has seen its end before
		frozenBeyondHardTimeout(t, l, nodes[i], pools[i])
		noGhosts(t, l, nodes)
	}
}

func TestClosingASilentConnectionUnderLoadDelaysNoOtherOperation(t *testing.T) {
	late.LeaveOut(t, "it measures times while one node is frozen, and a late one is then needed")
	nodes := masters(t, 3)
	// An operation may wait for the node timeout: the silent node might be the one that decides.
	l, pools := openPools(t, nodes, func(cfg *pool.Config) { cfg.HardTimeout = 4 * time.Second }, hasty)
	const bound = redistest.Slack * time.Second
	var worst time.Duration // of an acquire and a release
	for try := 1; ; try++ {
		answered(t, l)
		b := startBurst(t, l, 64)
		b.more(t, 1000)
		nodes[2].Pause(t)
		await(t, "the silent connection is closed", func() bool { return pools[2].Stats().Connected == 0 })
		b.more(t, 1000)
		b.end()
		nodes[2].Unpause(t)
		worst = time.Duration(b.worst.Load())
		if worst < bound || b.stall < time.Second || try == 3 {
			break
		}
	}
	// Thousands of commands died with the connection. Handling them must not delay other
	// operations.
	assert.Less(t, worst, bound, "the slowest acquire and release")
	noGhosts(t, l, nodes)
}

func TestAnAcquireThatArrivesLateIsNotExecutedBehindItsUndo(t *testing.T) {
	nodes := masters(t, 3)
	unreachable := &network{}
	l, pools := openPools(t, nodes, func(cfg *pool.Config) { cfg.HardTimeout, cfg.Dial = time.Minute, unreachable.dial }, hasty)
	answered(t, l)
	unreachable.arrivesLate(t, l, nodes, pools)
	noGhosts(t, l, nodes)
}

func TestWithoutTheRightToKillUndosAreRepeated(t *testing.T) {
	nodes := masters(t, 3)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-client")
	}
	unreachable := &network{}
	l, pools := openPools(t, nodes, func(cfg *pool.Config) {
		cfg.HardTimeout, cfg.Dial = time.Minute, unreachable.dial
		cfg.Username, cfg.Password = "app", "secret"
	}, hasty)
	answered(t, l)
	unreachable.arrivesLate(t, l, nodes, pools)
	noGhosts(t, l, nodes)
}

// The connections to one node end all the time while 64 goroutines acquire. Without the right to kill
// them, thousands of acquires may be executed late.
func TestAnIdleClientThatMayNotKillConnectionsSendsFewCommands(t *testing.T) {
	late.LeaveOut(t, "it counts the commands of some seconds")
	const idle = 10 * time.Second
	nodes := masters(t, 3)
	p, err := tcpfault.Listen(nodes[2].Addr())
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.Close()) }()
	l, pools := openPools(t, nodes, func(cfg *pool.Config) {
		cfg.Username, cfg.Password = "app", "secret"
		if cfg.Address == nodes[2].Addr() {
			cfg.Address = p.Addr()
		}
	}, hasty)
	for _, n := range nodes {
		n.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-client")
	}
	answered(t, l)
	b := startBurst(t, l, 64)
	for range 20 {
		b.more(t, 200)
		await(t, "the third node is connected", func() bool { return pools[2].Stats().Connected == 1 })
		p.Reset()
	}
	b.end()
	answered(t, l)
	redistest.NoKeys(t, nodes, patience)
	began, before := time.Now(), pools[2].Stats().Written
	time.Sleep(idle)
	sent, took := pools[2].Stats().Written-before, time.Since(began)
	t.Logf("idle: %.1f commands a second", float64(sent)/took.Seconds())
	assert.LessOrEqual(t, float64(sent), 2*took.Seconds())
	assert.GreaterOrEqual(t, sent, int64(2), "nothing is swept: no acquire was in transit")
	redistest.NoKeys(t, nodes, patience)
}

func TestAnAcquireThatWaitedForAFrozenMajorityLeavesNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	for round := range 3 {
		nodes[0].Pause(t)
		nodes[1].Pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := l.Acquire(ctx, fmt.Sprintf("ghost/%d", round), ghostTTL)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		nodes[1].Unpause(t)
		nodes[0].Unpause(t)
		noGhosts(t, l, nodes)
	}
}

func TestAKillInTheMiddleOfABurstLeavesNoKey(t *testing.T) {
	// The node has what it granted again after its restart.
	nodes := masters(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	l := open(t, nodes)
	answered(t, l)
	for _, dead := range nodes[:2] {
		b := startBurst(t, l, 8)
		b.more(t, 20)
		dead.Kill(t)
		b.more(t, 50)
		b.end()
		dead.Restart(t)
		noGhosts(t, l, nodes)
	}
}

func TestKilledConnectionsLeaveNoKey(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	b := startBurst(t, l, 8)
	for range 20 {
		b.more(t, 20)
		for _, n := range nodes {
			n.Do(t, "CLIENT", "KILL", "TYPE", "normal")
		}
	}
	b.end()
	noGhosts(t, l, nodes)
}
