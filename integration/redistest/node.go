package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/quorumlock/go-redlock/integration/tcpfault"
)

// bridge is the network of containers that need no other.
const bridge = "bridge"

// Node is one Redis server in a container. Its methods are safe for concurrent use. The Docker
// engine decides what two faults at once on one node do.
type Node struct {
	ctr  *testcontainers.DockerContainer
	id   string
	port int
	dial []redis.DialOption // further options for [Node.Try]

	proxy *tcpfault.Proxy // before it, if it is late in this test

	initial     string      // its state when it was new; empty if no other test gets it
	notReusable atomic.Bool // a fault may have left something that [Node.renew] does not see
}

// Addr returns the host:port at which clients reach the node. It does not change while the test runs,
// even after [Node.Restart].
func (n *Node) Addr() string {
	if n.proxy != nil {
		return n.proxy.Addr()
	}
	return n.server()
}

// server returns the host:port of the server itself.
func (n *Node) server() string { return net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// URL returns the node's address as a redis:// URL.
func (n *Node) URL() string { return "redis://" + n.Addr() }

// URLs returns the URLs of all nodes, in order.
func URLs(nodes []*Node) []string {
	urls := make([]string, len(nodes))
	for i, n := range nodes {
		urls[i] = n.URL()
	}
	return urls
}

// Pause freezes the server's process. Connections stay open and new ones are accepted, but nothing
// is answered until [Node.Unpause]. Then the server receives all that was sent meanwhile.
func (n *Node) Pause(t testing.TB) {
	t.Helper()
	n.fault(t, "pause", func(ctx context.Context, cli *client.Client) error {
		for try := 1; ; try++ {
			_, err := cli.ContainerPause(ctx, n.id, client.ContainerPauseOptions{})
			if err == nil || try == 3 || !strings.Contains(err.Error(), "unable to freeze") {
				return err // a busy engine may give up before the process is frozen, and resume it
			}
		}
	})
}

// Unpause resumes a paused server.
func (n *Node) Unpause(t testing.TB) {
	t.Helper()
	n.fault(t, "unpause", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerUnpause(ctx, n.id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Kill kills the server with SIGKILL and returns when it is dead.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	n.fault(t, "kill", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerKill(ctx, n.id, client.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
}

// Stop stops the server with SIGTERM, and with SIGKILL after ten seconds.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.fault(t, "stop", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerStop(ctx, n.id, client.ContainerStopOptions{})
		return err
	})
}

// Restart starts the server again on the same address, and returns when it answers PING. It first
// kills a server that is running or paused. Without persistence the server comes back empty. It
// always has a new run ID.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.fault(t, "restart", func(ctx context.Context, cli *client.Client) error {
		atOnce := 0
		if _, err := cli.ContainerRestart(ctx, n.id, client.ContainerRestartOptions{Timeout: &atOnce}); err != nil {
			return err
		}
		return n.awaitPing(ctx)
	})
}

func (n *Node) fault(t testing.TB, what string, fn func(context.Context, *client.Client) error) {
	t.Helper()
	if err := withEngine(t.Context(), fn); err != nil {
		t.Fatalf("redistest: %s node %s: %v", what, n.Addr(), err)
	}
}

// awaitPing returns when the server answers PING or ctx is done.
func (n *Node) awaitPing(ctx context.Context) error {
	for {
		_, err := n.Try("PING")
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("redistest: node %s does not answer PING: %w (last: %w)", n.Addr(), context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Inside returns the address at which other containers reach the server, for example a replica. It
// may change with a restart.
func (n *Node) Inside(t testing.TB) (host, port string) {
	t.Helper()
	n.fault(t, "inspect", func(ctx context.Context, cli *client.Client) error {
		found, err := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		for _, network := range found.Container.NetworkSettings.Networks {
			host = network.IPAddress.String()
		}
		return nil
	})
	return host, "6379"
}

// Disconnect disconnects the server from the container network. Its connections end, and no new
// ones can be made until [Node.Connect]. The server keeps running.
func (n *Node) Disconnect(t testing.TB) {
	t.Helper()
	n.notReusable.Store(true)
	n.fault(t, "disconnect", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.NetworkDisconnect(ctx, bridge, client.NetworkDisconnectOptions{Container: n.id, Force: true})
		return err
	})
}

// Connect connects the server to the network again, at the same address, and returns when it
// answers PING.
func (n *Node) Connect(t testing.TB) {
	t.Helper()
	n.fault(t, "connect", func(ctx context.Context, cli *client.Client) error {
		if _, err := cli.NetworkConnect(ctx, bridge, client.NetworkConnectOptions{Container: n.id}); err != nil {
			return err
		}
		return n.awaitPing(ctx)
	})
}
