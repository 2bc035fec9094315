package redistest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	"github.com/moby/moby/client"
)

// Network joins nodes behind their published ports: servers that have to know each other reach one another through it by
// addresses of its own, and the test reaches them from outside all the same, also those that are cut off from the others.
type Network struct {
	id string

	mu   sync.Mutex       // guards what follows
	who  map[string]*Node // by address inside
	host map[*Node]string
}

// NewNetwork makes a network that is removed when the test ends.
func NewNetwork(t testing.TB) *Network {
	t.Helper()
	requireEngine(t)
	w := &Network{who: make(map[string]*Node), host: make(map[*Node]string)}
	err := withEngine(t.Context(), func(ctx context.Context, cli *client.Client) error {
		// Internal: it has no gateway, so that no published port moves to it, and nothing leads from it into another network.
		made, err := cli.NetworkCreate(ctx, fmt.Sprintf("go-redlock-%016x", rand.Uint64()), client.NetworkCreateOptions{
			Driver: "bridge", Internal: true, Labels: map[string]string{Label: runLabel()},
		})
		w.id = made.ID
		return err
	})
	if err != nil {
		t.Fatalf("redistest: a network was asked for: %v", err)
	}
	t.Cleanup(func() {
		err := withEngine(context.WithoutCancel(t.Context()), func(ctx context.Context, cli *client.Client) error {
			_, err := cli.NetworkRemove(ctx, w.id, client.NetworkRemoveOptions{})
			return err
		})
		if err != nil {
			t.Errorf("redistest: a network is left: %v", err)
		}
	})
	return w
}

// Join connects nodes. They must have been started after the network was made, so that they are removed before it.
func (w *Network) Join(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		n.fault(t, "join", func(ctx context.Context, cli *client.Client) error {
			if _, err := cli.NetworkConnect(ctx, w.id, client.NetworkConnectOptions{Container: n.id}); err != nil {
				return err
			}
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

// CutOff disconnects nodes from all others, which notice nothing but silence. Their published ports go on.
func (w *Network) CutOff(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		n.fault(t, "cut off", func(ctx context.Context, cli *client.Client) error {
			_, err := cli.NetworkDisconnect(ctx, w.id, client.NetworkDisconnectOptions{Container: n.id})
			return err
		})
	}
}

// Host is a node's address inside, without the port, which is 6379.
func (w *Network) Host(n *Node) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host[n]
}

// Node is the one that has an address inside (host:port); nil where nobody has it.
func (w *Network) Node(address string) *Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.who[address]
}

// Dial leads from outside to the node that has an address inside, and to any other address as it is.
func (w *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if n := w.Node(address); n != nil {
		address = n.Addr()
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}
