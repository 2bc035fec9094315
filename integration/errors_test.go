package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// state is a state of a server that keeps the node from voting.
type state struct {
	name string
	// enter and leave send commands over a connection that was dialled before.
	enter, leave func(t *testing.T, c redis.Conn)
	says         string // part of the server's error
}

// set returns a state that one setting causes.
func set(name, key, on, off, says string) state {
	return state{
		name:  name,
		enter: func(t *testing.T, c redis.Conn) { do(t, c, "CONFIG", "SET", key, on) },
		leave: func(t *testing.T, c redis.Conn) { do(t, c, "CONFIG", "SET", key, off) },
		says:  says,
	}
}

// onOpenConnections are states that an existing connection sees.
var onOpenConnections = []state{
	set("out of memory", "maxmemory", "1", "0", "OOM command not allowed"),
	set("too few replicas", "min-replicas-to-write", "1", "0", "NOREPLICAS"),
	{
		name:  "a replica",
		enter: func(t *testing.T, c redis.Conn) { do(t, c, "REPLICAOF", "127.0.0.1", "1") },
		leave: func(t *testing.T, c redis.Conn) { do(t, c, "REPLICAOF", "NO", "ONE") },
		says:  "READONLY",
	},
	{
		name: "it can't save",
		enter: func(t *testing.T, c redis.Conn) {
			do(t, c, "CONFIG", "SET", "dir", "/proc") // not writable
			do(t, c, "CONFIG", "SET", "save", "3600 1")
			do(t, c, "BGSAVE")
			await(t, "the save has failed", func() bool {
				info, err := redis.String(c.Do("INFO", "persistence"))
				require.NoError(t, err)
				return strings.Contains(info, "rdb_last_bgsave_status:err")
			})
		},
		leave: func(t *testing.T, c redis.Conn) {
			do(t, c, "CONFIG", "SET", "save", "")
			do(t, c, "CONFIG", "SET", "dir", "/data")
		},
		says: "MISCONF",
	},
	{
		name: "busy with a script",
		enter: func(t *testing.T, c redis.Conn) {
			do(t, c, "CONFIG", "SET", "lua-time-limit", "1")
			require.NoError(t, c.Send("EVAL", "while true do end", 0))
			require.NoError(t, c.Flush())
		},
		leave: func(t *testing.T, c redis.Conn) {
			_, err := c.Receive()
			require.ErrorContains(t, err, "killed by user")
		},
		says: "BUSY",
	},
	{
		name: "loading",
		enter: func(t *testing.T, c redis.Conn) {
			do(t, c, "CONFIG", "SET", "key-load-delay", "5000") // µs for each key: longer than the test waits
			// Before Redis 7.0 that cannot be set, and the server answers after every 2 MiB.
			_, _ = c.Do("CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
			do(t, c, "CONFIG", "SET", "rdbcompression", "no")
			do(t, c, "CONFIG", "SET", "dir", "/dev/shm") // a container's disk takes seconds for it on a busy machine
			do(t, c, "DEBUG", "POPULATE", "4000", "loading", "4096")
			require.NoError(t, c.Send("DEBUG", "RELOAD"))
			require.NoError(t, c.Flush())
		},
		leave: func(t *testing.T, c redis.Conn) {
			_, err := c.Receive()
			require.NoError(t, err)
			do(t, c, "FLUSHALL")
			do(t, c, "CONFIG", "SET", "dir", "/data")
		},
		says: "LOADING",
	},
}

// onNewConnections are states that only a new connection sees.
var onNewConnections = []state{
	set("a password that we don't have", "requirepass", "secret", "", "NOAUTH"),
	set("too many clients", "maxclients", "1", "10000", "max number of clients reached"),
	set("protected from others", "protected-mode", "yes", "no", "DENIED"),
}

func TestANodeThatCannotVoteSaysWhyAndDoesNotVote(t *testing.T) {
	nodes := redistest.StartOnNetwork(t, 3, redistest.Freely(t)...) // protected mode protects from other machines only
	t.Cleanup(redistest.NoGoroutines(t))
	for _, s := range onOpenConnections {
		t.Run(s.name, func(t *testing.T) { s.check(t, nodes, false) })
	}
	for _, s := range onNewConnections {
		t.Run(s.name, func(t *testing.T) { s.check(t, nodes, true) })
	}
}

func (s state) check(t *testing.T, nodes []*redistest.Node, redial bool) {
	t.Helper()
	const ttl = 10 * time.Second
	l, one := open(t, nodes), open(t, nodes[:1])
	answered(t, l)
	answered(t, one)
	c := admin(t, nodes[0])
	defer func() {
		s.away(t, nodes[0], c)
		answered(t, one) // and so were its undos: Close waits for a node that fails for some seconds only
		answered(t, l)
	}()
	s.enter(t, c)
	if redial {
		do(t, c, "CLIENT", "KILL", "TYPE", "normal") // all connections but this one
	}

	vote := s.vote(t, one)
	require.ErrorContains(t, vote.Err, s.says)
	assert.Equal(t, redlock.OutcomeFailed, vote.Outcome, "certainly not executed: %v", vote)
	assert.Contains(t, vote.Node, nodes[0].Addr())
	var said *pool.ServerError
	if assert.ErrorAs(t, vote.Err, &said) {
		assert.Contains(t, said.Text, s.says)
	}

	for i := range 5 {
		k, err := l.TryAcquire(t.Context(), fmt.Sprintf("y%d", i), ttl)
		require.NoError(t, err, "the other two are a majority")
		require.NoError(t, k.Extend(t.Context(), 2*ttl))
		require.NoError(t, k.Release(t.Context()))
	}
	redistest.NoKeys(t, nodes[1:], time.Second)
}

// vote returns the node's vote in that state, or its last vote if it never has the expected error.
func (s state) vote(t *testing.T, l *redlock.Locker) (vote redlock.Vote) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		k, err := l.TryAcquire(t.Context(), "x", 10*time.Second)
		if err == nil {
			_ = k.Release(t.Context()) // granted before the state began; the test checks that no key is left
			continue
		}
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		// A health check may close the connection under a command, whose vote is then unknown.
		if vote = votesOf(t, err)[0]; strings.Contains(fmt.Sprint(vote.Err), s.says) && vote.Outcome != redlock.OutcomeUnknown {
			break
		}
	}
	return vote
}

// away ends the state of the node, and what does not end with it.
func (s state) away(t *testing.T, n *redistest.Node, c redis.Conn) {
	t.Helper()
	switch s.says {
	case "BUSY":
		_, err := n.Try("SCRIPT", "KILL")
		require.NoError(t, err)
	case "LOADING":
		_, err := n.Try("CONFIG", "SET", "key-load-delay", "0")
		require.NoError(t, err)
	}
	s.leave(t, c)
	redistest.NoKeys(t, []*redistest.Node{n}, 2*time.Second)
}

func TestAReleaseThatANodeWouldNotExecuteIsMadeGood(t *testing.T) {
	const countsForScripts = 7 // earlier versions count replicas for plain commands only
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	state := func(replicas int, at ...*redistest.Node) {
		for _, n := range at {
			n.Do(t, "CONFIG", "SET", "min-replicas-to-write", replicas)
		}
	}
	t.Run("by one", func(t *testing.T) {
		k := acquired(t, l, "x", time.Minute)
		heldEverywhere(t, nodes, "x")
		state(1, nodes[1])
		released(t, k)
		if redistest.Major(t) >= countsForScripts {
			await(t, "the node has refused", func() bool {
				text, ok := nodes[1].Do(t, "INFO", "errorstats").([]byte)
				return ok && strings.Contains(string(text), "errorstat_NOREPLICAS:")
			})
		}
		state(0, nodes[1])
		redistest.NoKeys(t, nodes, 3*time.Second)
	})
	t.Run("by a majority", func(t *testing.T) {
		k := acquired(t, l, "y", time.Minute)
		heldEverywhere(t, nodes, "y")
		state(1, nodes[:2]...)
		if redistest.Major(t) < countsForScripts {
			released(t, k)
			state(0, nodes[:2]...)
			return
		}
		err := k.Release(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "NOREPLICAS")
		state(0, nodes[:2]...)
		redistest.NoKeys(t, nodes, 3*time.Second)
	})
}

func TestAServerOfAClusterThatServesNoSlotsSaysSo(t *testing.T) {
	nodes := masters(t, 1, "--cluster-enabled", "yes")
	_, err := open(t, nodes, redlock.WithUnsafeNodes(nodes[0].Addr()+"/0")).TryAcquire(t.Context(), "x", 10*time.Second)
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "CLUSTERDOWN")
}

func TestAnUnusableAddressIsReportedWithItsReason(t *testing.T) {
	nodes := masters(t, 1)
	nodes[0].Do(t, "ACL", "SETUSER", "app", "on", ">right", "~*", "+@all")
	for name, c := range map[string]struct{ url, says string }{
		"a wrong password":               {"redis://app:wrong@" + nodes[0].Addr(), "WRONGPASS"},
		"a database that does not exist": {nodes[0].URL() + "/99", "out of range"},
		"a port without a server":        {"redis://127.0.0.1:1", "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := redlock.Open([]string{c.url}, redlock.WithNodeTimeout(busyTimeout))
			require.NoError(t, err)
			defer closeLocker(t, l)
			_, err = l.TryAcquire(t.Context(), "x", 10*time.Second)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, c.says)
			assert.NotContains(t, err.Error(), "wrong@")
			assert.Equal(t, redlock.OutcomeFailed, votesOf(t, err)[0].Outcome)
		})
	}
	redistest.NoKeys(t, nodes, 0)
}
