package redistest_test

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
)

func TestAPausedNodeIsSilentAndThenResumes(t *testing.T) {
	nodes := redistest.Start(t, 3)
	n := nodes[0]
	n.Do(t, "SET", "k", "v")

	n.Pause(t)
	_, err := n.Try("PING")
	var timeout net.Error
	require.ErrorAs(t, err, &timeout, "a paused node must be silent, not gone")
	assert.True(t, timeout.Timeout(), "PING of a paused node ended by %v, not by its timeout", err)
	assert.Equal(t, "PONG", nodes[1].Do(t, "PING"), "the other nodes still answer")

	n.Unpause(t)
	assert.Equal(t, "PONG", n.Do(t, "PING"))
	assert.Equal(t, []string{"k"}, n.Keys(t, "*"), "a pause keeps the keys")
}

func TestARestartedNodeComesBackEmptyOnTheSameAddress(t *testing.T) {
	for name, end := range map[string]func(*redistest.Node, testing.TB){
		"after a kill":          (*redistest.Node).Kill,
		"after a stop":          (*redistest.Node).Stop,
		"while it runs":         nil,
		"while it is paused":    (*redistest.Node).Pause,
		"after another restart": (*redistest.Node).Restart,
	} {
		t.Run(name, func(t *testing.T) {
			n := redistest.Start(t, 1)[0]
			addr, incarnation := n.Addr(), runID(t, n)
			n.Do(t, "SET", "k", "v")
			if end != nil {
				end(n, t)
			}
			n.Restart(t)
			assert.Equal(t, addr, n.Addr())
			assert.Empty(t, n.Keys(t, "*"))
			assert.NotEqual(t, incarnation, runID(t, n))
		})
	}
}

func TestAKilledNodeRefusesConnections(t *testing.T) {
	n := redistest.Start(t, 1)[0]
	n.Kill(t)
	_, err := n.Try("PING")
	require.Error(t, err)
	awaitDialFails(t, n.Addr(), syscall.ECONNREFUSED)
}

// awaitDialFails dials until that ends as it should, now or at the first read: the engine's proxy accepts
// connections to a dead server until the engine sees that the server is dead.
func awaitDialFails(t *testing.T, addr string, want error) {
	t.Helper()
	require.Eventually(t, func() bool {
		c, err := net.DialTimeout("tcp", addr, time.Minute)
		if err == nil {
			_, err = c.Read(make([]byte, 1))
			_ = c.Close()
		}
		return errors.Is(err, want)
	}, time.Minute, 10*time.Millisecond)
}

func TestArgumentsOfTheServerWinOverTheDefaults(t *testing.T) {
	n := redistest.Start(t, 1, "--appendonly", "yes", "--appendfsync", "always")[0]
	n.Do(t, "SET", "k", "v")
	n.Kill(t)
	n.Restart(t)
	assert.Equal(t, []string{"k"}, n.Keys(t, "*"), "a durable node keeps what it acknowledged")
}

func TestNodesListenOnTheLoopbackAddressOnly(t *testing.T) {
	ips := ownAddresses(t)
	require.NotEmpty(t, ips, "the bridge of Docker has an address")
	for _, n := range append(redistest.Start(t, 1), redistest.StartOnNetwork(t, 1)[0], redistest.StartSentinel(t)) {
		_, port, err := net.SplitHostPort(n.Addr())
		require.NoError(t, err)
		for _, ip := range ips {
			// It dials from the address itself: Docker may remove a network meanwhile, and its address is then another machine's.
			own := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
			conn, err := own.DialContext(t.Context(), "tcp", net.JoinHostPort(ip, port))
			if assert.Error(t, err, "the node can be reached at %s", ip) {
				continue
			}
			_ = conn.Close()
		}
	}
}

func TestNodesAreRemovedWhenTheTestEndsAlsoWhilePaused(t *testing.T) {
	var node *redistest.Node
	t.Run("a test that leaves its node paused", func(t *testing.T) {
		node = redistest.Start(t, 1)[0]
		node.Pause(t)
	})
	if node == nil {
		t.Skip("no Docker engine answers")
	}
	_, err := net.DialTimeout("tcp", node.Addr(), time.Minute)
	assert.ErrorContains(t, err, "connection refused")
}

func TestMain(m *testing.M) { os.Exit(redistest.Run(m)) }

// What a test leaves on a server is gone when another test gets the server, and a server with another
// setting, another user or another role is given to none.
func TestAUsedServerIsLikeANewOne(t *testing.T) {
	var script string
	leaves := map[string]struct {
		what  func(t *testing.T, n *redistest.Node)
		again bool
	}{
		"a key, a script and a client": {func(t *testing.T, n *redistest.Node) {
			n.Do(t, "SET", "k", "v")
			script = asString(t, n.Do(t, "SCRIPT", "LOAD", "return 1"))
			conn, err := redis.Dial("tcp", n.Addr())
			require.NoError(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = conn.Do("CLIENT", "SETNAME", "left")
			require.NoError(t, err)
		}, true},
		"a pause of its clients": {func(t *testing.T, n *redistest.Node) { n.Do(t, "CLIENT", "PAUSE", 60_000) }, false},
		"a restart":              {func(t *testing.T, n *redistest.Node) { n.Restart(t) }, true},
		"a setting":              {func(t *testing.T, n *redistest.Node) { n.Do(t, "CONFIG", "SET", "maxmemory", "100mb") }, false},
		"a user":                 {func(t *testing.T, n *redistest.Node) { n.Do(t, "ACL", "SETUSER", "left") }, false},
		"another role":           {func(t *testing.T, n *redistest.Node) { n.Do(t, "REPLICAOF", "127.0.0.1", "1") }, false},
		"a role that was another": {func(t *testing.T, n *redistest.Node) {
			n.Do(t, "REPLICAOF", "127.0.0.1", "1")
			n.Do(t, "REPLICAOF", "NO", "ONE")
		}, false},
		"a frozen process": {func(t *testing.T, n *redistest.Node) { n.Pause(t) }, false},
		"a dead one":       {func(t *testing.T, n *redistest.Node) { n.Kill(t) }, false},
	}
	for name, left := range leaves {
		t.Run(name, func(t *testing.T) {
			var used string
			t.Run("first", func(t *testing.T) {
				n := redistest.Start(t, 1)[0]
				used = n.Addr()
				left.what(t, n)
			})
			n := redistest.Start(t, 1)[0]
			assert.Equal(t, left.again, n.Addr() == used)
			assert.Equal(t, int64(0), n.Do(t, "DBSIZE"))
			assert.Equal(t, []any{int64(0)}, n.Do(t, "SCRIPT", "EXISTS", script))
			assert.NotContains(t, asString(t, n.Do(t, "CLIENT", "LIST")), "left")
		})
	}
}

func asString(t *testing.T, reply any) string {
	t.Helper()
	s, err := redis.String(reply, nil)
	require.NoError(t, err)
	return s
}

func TestNoKeysWaitsForAKeyToExpire(t *testing.T) {
	nodes := redistest.Start(t, 1)
	nodes[0].Do(t, "SET", "redlock:fence:x", "1")
	nodes[0].Do(t, "SET", "x", "token", "PX", 200)
	redistest.NoKeys(t, nodes, 5*time.Second)
}

func TestNoKeysNamesWhatIsLeft(t *testing.T) {
	nodes := redistest.Start(t, 2)
	nodes[1].Do(t, "SET", "left-over", "token")
	said := failureOf(t, func(t testing.TB) { redistest.NoKeys(t, nodes, 0) })
	assert.Contains(t, said, "left-over")
	assert.Contains(t, said, nodes[1].Addr())
	assert.NotContains(t, said, nodes[0].Addr())
}

func TestNoKeysFailsIfANodeCannotBeQueried(t *testing.T) {
	nodes := redistest.Start(t, 1)
	nodes[0].Kill(t)
	said := failureOf(t, func(t testing.TB) { redistest.NoKeys(t, nodes, 0) })
	assert.Contains(t, said, nodes[0].Addr())
}

func TestStartLeavesNoGoroutineOfItsOwn(t *testing.T) {
	check := redistest.NoGoroutines(t)
	n := redistest.Start(t, 1)[0]
	n.Restart(t)
	check()
}

func TestNoGoroutinesShowsTheStackOfALeakedOne(t *testing.T) {
	stop := make(chan struct{})
	said := failureOf(t, func(t testing.TB) {
		check := redistest.NoGoroutines(t)
		go leaked(stop)
		check()
	})
	close(stop)
	assert.Contains(t, said, "are left after 3s: 1\n")
	assert.Contains(t, said, "redistest_test.leaked")
}

func leaked(stop chan struct{}) { <-stop }

// failureOf runs a check that must fail, and returns its text.
func failureOf(t *testing.T, check func(testing.TB)) string {
	t.Helper()
	rec := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		check(rec)
	}()
	<-done
	require.NotEmpty(t, rec.said, "the check did not fail")
	return rec.said
}

func runID(t *testing.T, n *redistest.Node) string {
	t.Helper()
	return runIDOf(t, asString(t, n.Do(t, "INFO", "server")))
}
