package integration

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// patience bounds every wait for an event. Tests end long before it, unless something is wrong.
const patience = 20 * time.Second

// masters starts n servers. When the test has ended and closed what it opened, no goroutine may be
// left.
func masters(t testing.TB, n int, args ...string) []*redistest.Node {
	t.Helper()
	nodes := redistest.Start(t, n, args...)
	t.Cleanup(redistest.NoGoroutines(t))
	return nodes
}

// busyTimeout is a node timeout in which healthy servers answer also on a busy machine, which may stop
// for seconds. It is for tests that need an answer of every node, or of those that are left. The TTL of
// a lock must be longer.
const busyTimeout = 5 * time.Second

// open opens a Locker over the nodes, which is closed when the test ends. Its node timeout is
// busyTimeout unless opts have another.
func open(t testing.TB, nodes []*redistest.Node, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.Open(redistest.URLs(nodes), append([]redlock.Option{redlock.WithNodeTimeout(busyTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

// closeLocker closes l. All its undos must be done within the test's patience.
func closeLocker(t testing.TB, l *redlock.Locker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	assert.NoError(t, l.Close(ctx))
}

// openPools opens a Locker over nodes whose counters the test can read. edit changes what
// [pool.ParseURL] has parsed. The node timeout is that of [open].
func openPools(t testing.TB, nodes []*redistest.Node, edit func(*pool.Config), opts ...redlock.Option) (*redlock.Locker, []*pool.Node) {
	t.Helper()
	pools := make([]*pool.Node, len(nodes))
	for i, n := range nodes {
		cfg, err := pool.ParseURL(n.URL())
		require.NoError(t, err)
		edit(&cfg)
		pools[i], err = pool.Open(cfg)
		require.NoError(t, err)
	}
	l, err := redlock.New(pools, append([]redlock.Option{redlock.WithNodeTimeout(busyTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l, pools
}

// await polls until ok returns true, and fails the test if that takes too long.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	awaitFor(t, patience, what, ok)
}

func awaitFor(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	pause := time.Millisecond
	for deadline := time.Now().Add(redistest.Slack * within); !ok(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			require.FailNow(t, "timeout", "after %v: %s", redistest.Slack*within, what)
		}
		pause = min(2*pause, 20*time.Millisecond) // most questions dial, and other tests run beside this one
	}
}

// acquired is an Acquire that must succeed.
func acquired(t testing.TB, l *redlock.Locker, name string, ttl time.Duration, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Slack*patience)
	defer cancel()
	k, err := l.Acquire(ctx, name, ttl, opts...)
	require.NoError(t, err)
	return k
}

// released is a Release that must succeed.
func released(t testing.TB, k *redlock.Lock) {
	t.Helper()
	require.NoError(t, k.Release(t.Context()))
}

// releasedOrLate is a Release with a short node timeout, which a busy machine may exceed.
func releasedOrLate(t testing.TB, k *redlock.Lock) {
	t.Helper()
	if err := k.Release(t.Context()); err != nil {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.True(t, isLate(err), "%v", err)
	}
}

// confirmed requires that a majority confirms the lock, and that it was not lost at any time.
func confirmed(t testing.TB, k *redlock.Lock) {
	t.Helper()
	require.NoError(t, k.Check(t.Context()))
	require.NoError(t, context.Cause(k.Context()))
}

// admin dials a connection to a node, for commands over a connection that was dialled before a
// fault.
func admin(t testing.TB, n *redistest.Node) redis.Conn {
	t.Helper()
	c, err := n.Dial(redis.DialReadTimeout(patience))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do sends a command that must succeed over such a connection.
func do(t testing.TB, c redis.Conn, cmd string, args ...any) any {
	t.Helper()
	reply, err := c.Do(cmd, args...)
	require.NoError(t, err, cmd)
	return reply
}

// votesOf returns the votes of an error.
func votesOf(t testing.TB, err error) []redlock.Vote {
	t.Helper()
	var qe *redlock.QuorumError
	require.ErrorAs(t, err, &qe)
	return qe.Votes
}
