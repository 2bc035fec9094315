package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/client"
)

// bridge is the network that containers are on where nothing else is asked for.
const bridge = "bridge"

// Node is one Redis server in a container. Its methods may be called concurrently; what two faults at once on one node mean is the
// engine's business.
type Node struct {
	id   string
	port int
	dial []redis.DialOption // what [Node.Try] needs besides
}

// Addr is the node's host:port. It stays the same for as long as the test runs, also after [Node.Restart].
func (n *Node) Addr() string { return net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// URL is the node's address as a redis:// URL.
func (n *Node) URL() string { return "redis://" + n.Addr() }

// URLs are the URLs of all nodes, in their order.
func URLs(nodes []*Node) []string {
	urls := make([]string, len(nodes))
	for i, n := range nodes {
		urls[i] = n.URL()
	}
	return urls
}

// Pause freezes the server's process: connections stay open and new ones are accepted, and nothing is answered until
// [Node.Unpause], which then has all that was sent in between.
func (n *Node) Pause(t testing.TB) {
	t.Helper()
	n.fault(t, "pause", func(ctx context.Context, cli *client.Client) error {
		for try := 1; ; try++ {
			_, err := cli.ContainerPause(ctx, n.id, client.ContainerPauseOptions{})
			if err == nil || try == 3 || !strings.Contains(err.Error(), "unable to freeze") {
				return err // on a busy machine the engine may give up before the process stands still, and lets it go on
			}
		}
	})
}

// Unpause lets a paused server go on.
func (n *Node) Unpause(t testing.TB) {
	t.Helper()
	n.fault(t, "unpause", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerUnpause(ctx, n.id, client.ContainerUnpauseOptions{})
		return err
	})
}

// Kill ends the server by SIGKILL and returns when it is dead.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	n.fault(t, "kill", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerKill(ctx, n.id, client.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
}

// Stop ends the server in good order, by SIGTERM, and by SIGKILL after ten seconds.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.fault(t, "stop", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.ContainerStop(ctx, n.id, client.ContainerStopOptions{})
		return err
	})
}

// Restart starts the server again, on the same address, and returns when it answers PING. A server that runs or is paused is killed
// first. Without persistence it comes back empty, and always with a run ID of its own.
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

// awaitPing returns when the server answers PING, or when ctx is done.
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

// Inside is where other containers reach the server, for a replica to be told of. It may change with a restart.
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

// Disconnect takes the server off the container network: connections to it end, and none can be made until [Node.Connect]. The server
// itself goes on.
func (n *Node) Disconnect(t testing.TB) {
	t.Helper()
	n.fault(t, "disconnect", func(ctx context.Context, cli *client.Client) error {
		_, err := cli.NetworkDisconnect(ctx, bridge, client.NetworkDisconnectOptions{Container: n.id, Force: true})
		return err
	})
}

// Connect puts the server on the network again, on the same address, and returns when it answers PING.
func (n *Node) Connect(t testing.TB) {
	t.Helper()
	n.fault(t, "connect", func(ctx context.Context, cli *client.Client) error {
		if _, err := cli.NetworkConnect(ctx, bridge, client.NetworkConnectOptions{Container: n.id}); err != nil {
			return err
		}
		return n.awaitPing(ctx)
	})
}
