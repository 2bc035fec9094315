package nodetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// OnCluster runs a test in a bubble with a Cluster of three masters.
func OnCluster(t *testing.T, f func(t *testing.T, cl *fakeredis.Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		f(t, cl)
	})
}

// Others returns the masters that do not have the key's slot.
func Others(cl *fakeredis.Cluster, key string) []*fakeredis.Master {
	owner := cl.Owner(key)
	return slices.DeleteFunc(slices.Clone(cl.Masters), func(m *fakeredis.Master) bool { return m == owner })
}

// Group is two servers, one of which is the master, and their Sentinels.
type Group struct {
	A, B      *fakeredis.Master
	Sentinels []*fakeredis.Sentinel
}

// OnGroup runs a test in a bubble with a group of three Sentinels that all name A as the master "m".
func OnGroup(t *testing.T, f func(t *testing.T, h *Group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &Group{A: fakeredis.New("a"), B: fakeredis.New("b")}
		for i := range 3 {
			s := fakeredis.NewSentinel(fmt.Sprintf("s%d", i+1), 2)
			s.SetMaster("m", h.A.Addr())
			h.Sentinels = append(h.Sentinels, s)
		}
		defer h.close()
		f(t, h)
	})
}

// masters returns all servers.
func (h *Group) masters() []*fakeredis.Master {
	all := []*fakeredis.Master{h.A, h.B}
	for _, s := range h.Sentinels {
		all = append(all, s.Master)
	}
	return all
}

func (h *Group) close() {
	for _, m := range h.masters() {
		m.Close()
	}
}

// Addresses returns those of the Sentinels.
func (h *Group) Addresses() (all []string) {
	for _, s := range h.Sentinels {
		all = append(all, s.Addr())
	}
	return all
}

// Dial connects to the server that has the address.
func (h *Group) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for _, m := range h.masters() {
		if m.Addr() == address {
			return m.Dial(ctx, network, address)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
}

// Promote makes that many Sentinels name and announce B as the master.
func (h *Group) Promote(sentinels int) {
	for _, s := range h.Sentinels[:sentinels] {
		s.Failover("m", h.B.Addr())
	}
}
