package redlock

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

// This file has what the tests of nodes behind Sentinels share.

// settleTime is the MaxAge of all nodes in tests.
const settleTime = 5 * time.Second

// group is a master, its replica and three Sentinels of their own: one node of a Locker.
type group struct {
	name            string
	master, replica *fakeredis.Master
	sentinels       []*fakeredis.Sentinel
	late            *late.Set // not nil if the group is late for some clients
}

// onGroups runs f on n groups in virtual time.
func onGroups(t *testing.T, n int, f func(t *testing.T, groups []*group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		groups, set := make([]*group, n), late.Within(t, n, maxLate)
		for i := range groups {
			name := fmt.Sprintf("n%d", i+1)
			g := &group{name: name, master: fakeredis.New(name + "a"), replica: fakeredis.New(name + "b")}
			for j := range 3 {
				s := fakeredis.NewSentinel(fmt.Sprintf("%ss%d", name, j+1), 2)
				s.SetMaster("m", g.master.Addr())
				g.sentinels = append(g.sentinels, s)
			}
			if set.Is(i) {
				g.late = set
			}
			groups[i] = g
		}
		defer func() {
			for _, g := range groups {
				for _, m := range g.servers() {
					m.Close()
				}
			}
		}()
		f(t, groups)
	})
}

func (g *group) servers() []*fakeredis.Master {
	all := []*fakeredis.Master{g.master, g.replica}
	for _, s := range g.sentinels {
		all = append(all, s.Master)
	}
	return all
}

// failOver makes that many Sentinels name and announce the replica. The replica has the named keys
// of the master's data and, as after any promotion, the master's history.
func (g *group) failOver(sentinels int, keys ...string) {
	g.replica.SetInfo("master_replid2", g.master.RunID())
	for _, k := range keys {
		v, _ := g.master.Get(k)
		g.replica.Set(k, v, g.master.TTL(k))
	}
	for _, s := range g.sentinels[:sentinels] {
		s.Failover("m", g.replica.Addr())
	}
}

// view has the servers that one client reaches.
type view struct {
	mu   sync.Mutex // guards the fields below
	gone map[string]bool
}

func (v *view) lost(address string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.gone[address]
}

// losing cuts a client off from servers, including its open connections.
func (v *view) losing(all ...*fakeredis.Sentinel) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range all {
		v.gone[s.Addr()] = true
	}
}

// client makes a guarded Locker over the groups, as another process would.
func client(t *testing.T, groups []*group, v *view, opts ...Option) *Locker {
	t.Helper()
	c := clocktest.NewSkewed(clock.Runtime())
	nodes := make([]*pool.Node, len(groups))
	for i, g := range groups {
		s := sentinel.Config{Master: "m", MaxAge: settleTime}
		for _, w := range g.sentinels {
			s.Addresses = append(s.Addresses, w.Addr())
		}
		n, err := pool.Open(pool.Config{Name: g.name, Kind: &s, Clock: c, Dial: v.dialler(g)})
		require.NoError(t, err)
		nodes[i] = n
	}
	l, err := New(nodes, append([]Option{WithClock(c), WithRestartGuard(guardTTL)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = l.Close(ctx)
	})
	synctest.Wait()
	return l
}

// dialler returns a dial function to those of a group's servers that the client reaches. What it
// later sends to others is lost.
func (v *view) dialler(g *group) func(ctx context.Context, network, address string) (net.Conn, error) {
	by := g.late.Next()
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		for _, m := range g.servers() {
			if m.Addr() == address && !v.lost(address) {
				conn, err := m.DialLate(by)(ctx, network, address)
				return &cuttable{Conn: conn, cut: func() bool { return v.lost(address) }}, err
			}
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
	}
}

// cuttable is a connection that discards what is written to it once it is cut.
type cuttable struct {
	net.Conn
	cut func() bool
}

func (c *cuttable) Write(p []byte) (int, error) {
	if c.cut() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// groupsLateAt makes that group the one that may be late, for the clients that are made from now on.
func groupsLateAt(groups []*group, at int) {
	for _, g := range groups {
		if set := g.late; set != nil {
			g.late = nil
			groups[at].late = set
			return
		}
	}
}

// groupsAnswered returns when every server has executed and answered what it was sent.
func groupsAnswered(groups []*group) {
	var all []*fakeredis.Master
	for _, g := range groups {
		all = append(all, g.servers()...)
	}
	(&testbed{masters: all}).answered()
}

// ready waits until all nodes vote.
func ready(t *testing.T, l *Locker, groups []*group) {
	t.Helper()
	k, err := l.Acquire(bg, "warm-up", 2*time.Second)
	require.NoError(t, err)
	groupsAnswered(groups)
	require.NoError(t, k.Release(bg))
	pass(time.Second)
	for _, g := range groups {
		require.Equal(t, "ok", state(g.master))
	}
}
