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
	"github.com/moby/moby/client"
)

// Network connects nodes behind their published ports. The servers reach each other through the
// network by its inner addresses. The test still reaches all of them from outside, even those that
// are cut off from the others.
type Network struct {
	id string

	mu   sync.Mutex       // guards what follows
	who  map[string]*Node // by address inside
	host map[*Node]string
}

// NewNetwork creates a network that is removed when the test ends.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	requireEngine(t)
	w := &Network{who: make(map[string]*Node), host: make(map[*Node]string)}
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

// Join connects nodes. They must be started after the network was created, so they are removed
// before it.
func (w *Network) Join(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		n.notReusable.Store(true)
		n.fault(t, "join", func(c *container.InspectResponse) bool { return isIn(c, w.id) }, func(ctx context.Context, cli *client.Client) error {
			_, err := cli.NetworkConnect(ctx, w.id, client.NetworkConnectOptions{Container: n.id})
			return err
		})
		n.fault(t, "inspect", notBy, func(ctx context.Context, cli *client.Client) error {
			found, err := cli.ContainerInspect(ctx, n.id, client.ContainerInspectOptions{})
			if err != nil {
				return err
			}
			for _, e := range found.Container.NetworkSettings.Networks {
				if e.NetworkID == w.id {
					w.note(n, e.IPAddress.String())
				}
			}
			return nil
		})
	}
}

func (w *Network) note(n *Node, host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host[n] = host
	w.who[net.JoinHostPort(host, "6379")] = n
}

// CutOff disconnects nodes from all others, which only see that they are silent. Their published
// ports still work.
func (w *Network) CutOff(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		n.fault(t, "cut off", func(c *container.InspectResponse) bool { return !isIn(c, w.id) }, func(ctx context.Context, cli *client.Client) error {
			_, err := cli.NetworkDisconnect(ctx, w.id, client.NetworkDisconnectOptions{Container: n.id})
			return err
		})
	}
}

func (w *Network) nodes() []*Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.host))
}

// Host returns a node's inner address without the port, which is 6379.
func (w *Network) Host(n *Node) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host[n]
}

// Node returns the node that has an inner address (host:port). It returns nil if no node has it.
func (w *Network) Node(address string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.who[address]
}

// Dial dials the node that has an inner address, from outside. It dials any other address
// unchanged.
func (w *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n := w.Node(address); n != nil {
		address = n.Addr()
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
