package redistest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/quorumlock/go-redlock/integration/tcpfault"
	"github.com/quorumlock/go-redlock/internal/port"
)

// bridge is the network of containers that need no other.
const bridge = "bridge"

// Node is one Redis server in a container. Its methods are safe for concurrent use. The Docker
// engine decides what two faults at once on one node do.
type Node struct {
	ctr  *testcontainers.DockerContainer
	id   string
	port port.Port
	dial []redis.DialOption // further options for [Node.Try]

	onMachine bool // its server uses this machine's network

	mu     sync.Mutex      // guards what follows
	proxy  *tcpfault.Proxy // before it, if it is late in this test
	pid    int             // of the server's process as the engine sees it, from the last start on
	frozen *os.Process     // the server's, if Pause has stopped it by a signal

	initial     string      // its state when it was new; empty if no other test gets it
	notReusable atomic.Bool // a fault may have left something that [Node.renew] does not see
}

// Addr returns the host:port at which clients reach the node. It does not change while the test runs,
// even after [Node.Restart].
func (n *Node) Addr() string {
	if p := n.late(); p != nil {
		return p.Addr()
	}
	return n.server()
}

// late returns the proxy before the server, or nil.
func (n *Node) late() *tcpfault.Proxy {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proxy
}

func (n *Node) setLate(p *tcpfault.Proxy) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.proxy = p
}

// server returns the host:port of the server itself.
func (n *Node) server() string { return n.port.Addr() }

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

// Kill kills the server with SIGKILL and returns when it is dead.
//
// It signals the process if that runs on this machine and may be signalled, and does not wait for the
// engine, which may take a second: a test may need a command not to have been executed yet. Until the
// engine sees that the server is dead, the proxy of a network of Docker accepts connections and closes them
// at once.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	if n.end() {
		n.thaw()
		return
	}
	n.fault(t, "kill", isDead, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerKill(ctx, n.id, client.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
	n.thaw()
}

// Stop stops the server with SIGTERM, and with SIGKILL after ten seconds.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.fault(t, "stop", isDead, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerStop(ctx, n.id, client.ContainerStopOptions{})
		return err
	})
	n.thaw()
}

// Restart starts the server again on the same address, and returns when it answers PING. It first
// kills a server that is running or paused. Without persistence the server comes back empty. It
// always has a new run ID.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.fault(t, "restart", notBy, func(ctx context.Context, cli *client.Client) error {
		atOnce := 0
		if _, err := cli.ContainerRestart(ctx, n.id, client.ContainerRestartOptions{Timeout: &atOnce}); err != nil {
			return err
		}
		return n.awaitPing(ctx)
	})
	n.thaw()
	n.fault(t, "inspect", notBy, n.findProcess)
}

// fault has the engine do something to the container, and asks it again if that fails. An engine that
// reports a failure may have done it anyway, which done tells from the container's state.
func (n *Node) fault(t testing.TB, what string, done func(*container.InspectResponse) bool, fn func(context.Context, *client.Client) error) {
	t.Helper()
	err := repeated(t.Context(), func() error {
		return withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
			err := fn(ctx, cli)
			if err == nil {
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), engineTimeout) // fn may have used up its own
			defer cancel()
			if found, asked := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{}); asked == nil && done(&found.Container) {
				return nil
			}
			return err
		})
	}, neverFinal)
	if err != nil {
		machineFailed(t, what+" node "+n.Addr(), err)
	}
}

// notBy is for what the state of a container does not tell.
func notBy(*container.InspectResponse) bool { return false }

func isDead(c *container.InspectResponse) bool { return c.State != nil && !c.State.Running }

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
	if n.onMachine {
		return loopback, strconv.Itoa(n.port.Number)
	}
	n.fault(t, "inspect", notBy, func(ctx context.Context, cli *client.Client) error {
		found, err := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
		if err != nil {
			return err
		}
		for _, network := range found.Container.NetworkSettings.Networks {
			host = network.IPAddress.String()
		}
		return nil
	})
	return host, innerPort
}

// Disconnect disconnects a server of [StartOnNetwork] from the container network. Its connections end, and
// no new ones can be made until [Node.Connect]. The server keeps running.
func (n *Node) Disconnect(t testing.TB) {
	t.Helper()
	if n.onMachine {
		t.Fatalf("redistest: node %s can't be disconnected: StartOnNetwork starts nodes that can", n.Addr())
	}
	n.fault(t, "disconnect", func(c *container.InspectResponse) bool { return !isIn(c, bridge) }, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.NetworkDisconnect(ctx, bridge, client.NetworkDisconnectOptions{Container: n.id, Force: true})
		return err
	})
}

// Connect connects the server to the network again, at the same address, and returns when it
// answers PING.
func (n *Node) Connect(t testing.TB) {
	t.Helper()
	n.fault(t, "connect", func(c *container.InspectResponse) bool { return isIn(c, bridge) }, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.NetworkConnect(ctx, bridge, client.NetworkConnectOptions{Container: n.id})
		return err
	})
	n.fault(t, "reach", notBy, func(ctx context.Context, _ *client.Client) error { return n.awaitPing(ctx) })
}

// isIn reports whether a container is in the network of that name or ID.
func isIn(c *container.InspectResponse, network string) bool {
	if c.NetworkSettings == nil {
		return false
	}
	for name, e := range c.NetworkSettings.Networks {
		if name == network || e.NetworkID == network {
			return true
		}
	}
	return false
}
