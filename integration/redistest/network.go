package redistest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Network knows the addresses at which servers reach each other. Those are addresses of a network of Docker
// if the servers are not on the machine's network. The test then still reaches all of them from outside, by
// [Network.Dial], even those that are cut off from the others.
type Network struct {
	id string // of Docker's network; empty if the servers are on the machine's

	mu     sync.Mutex       // guards what follows
	who    map[string]*Node // by address inside
	inside map[*Node]string
}

// newNetwork is for servers that are all on the machine's network, or all on a network of Docker, which is
// removed when the test ends.
func newNetwork(t testing.TB, onMachine bool) *Network {
	t.Helper()
	w := &Network{who: make(map[string]*Node), inside: make(map[*Node]string)}
	if onMachine {
		return w
	}
	requireEngine(t)
	name := fmt.Sprintf("go-redlock-%016x", rand.Uint64())
	err := repeated(t.Context(), func() error {
		return withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
			// An engine that reported a failure may have created it.
			if found, err := cli.NetworkInspect(ctx, name, client.NetworkInspectOptions{}); err == nil {
				w.id = found.Network.ID
				return nil
			}
			// The network is internal, without a gateway. So no published port moves to it, and no
			// route leads from it into another network.
			made, err := cli.NetworkCreate(ctx, name, client.NetworkCreateOptions{
				Driver: "bridge", Internal: true, Labels: map[string]string{Label: runLabel()},
			})
			w.id = made.ID
			return err
		})
	}, neverFinal)
	if err != nil {
		machineFailed(t, "create network", err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := repeated(ctx, func() error {
			return withEngine(ctx, func(ctx context.Context, cli *client.Client) error {
				_, err := cli.NetworkRemove(ctx, w.id, client.NetworkRemoveOptions{})
				if errdefs.IsNotFound(err) {
					return nil
				}
				return err
			})
		}, neverFinal)
		if err != nil {
			t.Errorf("redistest: the machine failed (Docker), and not the library: remove network: %v", err)
		}
	})
	return w
}

// join connects nodes. They must be started after the network was created, so they are removed
// before it.
func (w *Network) join(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		n.notReusable.Store(true)
		if n.onMachine {
			w.note(n, n.server())
			continue
		}
		w.connect(t, n)
		n.fault(t, "inspect", notBy, func(ctx context.Context, cli *client.Client) error {
			found, err := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
			if err != nil {
				return err
			}
			for _, e := range found.Container.NetworkSettings.Networks {
				if e.NetworkID == w.id {
					w.note(n, net.JoinHostPort(e.IPAddress.String(), innerPort))
				}
			}
			return nil
		})
	}
}

// connect connects a server to Docker's network, with further names.
func (w *Network) connect(t testing.TB, n *Node, names ...string) {
	t.Helper()
	n.fault(t, "join", func(c *container.InspectResponse) bool { return isIn(c, w.id) }, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.NetworkConnect(ctx, w.id, client.NetworkConnectOptions{
			Container: n.id, EndpointConfig: &network.EndpointSettings{Aliases: names},
		})
		return err
	})
}

// disconnect ends connect.
func (w *Network) disconnect(t testing.TB, n *Node, what string) {
	t.Helper()
	n.fault(t, what, func(c *container.InspectResponse) bool { return !isIn(c, w.id) }, func(ctx context.Context, cli *client.Client) error {
		_, err := cli.NetworkDisconnect(ctx, w.id, client.NetworkDisconnectOptions{Container: n.id})
		return err
	})
}

func (w *Network) note(n *Node, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inside[n] = address
	w.who[address] = n
}

// CutOff disconnects nodes of a [StartDivisibleGroup] from all others, which only see that they are silent.
// Their published ports still work.
func (w *Network) CutOff(t testing.TB, nodes ...*Node) {
	t.Helper()
	if w.id == "" {
		t.Fatal("redistest: servers on the machine's network can't be cut off: StartDivisibleGroup starts others")
	}
	for _, n := range nodes {
		w.disconnect(t, n, "cut off")
	}
}

func (w *Network) nodes() []*Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.inside))
}

// Inside returns the host:port at which the other servers reach a node.
func (w *Network) Inside(n *Node) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inside[n]
}

// at is [Network.Inside] as two arguments of a command.
func (w *Network) at(n *Node) []any {
	host, port, _ := net.SplitHostPort(w.Inside(n))
	return []any{host, port}
}

// Node returns the node that has an inner address (host:port). It returns nil if no node has it.
func (w *Network) Node(address string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.who[address]
}

// Dial dials the node that has an inner address, from outside. It dials any other address
// unchanged.
func (w *Network) Dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	if n := w.Node(address); n != nil {
		address = n.Addr()
	}
	var d net.Dialer
	return d.DialContext(ctx, protocol, address)
}
