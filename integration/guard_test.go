package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// guardTTL is the maxTTL of the guarded clients here, and the TTL of their locks. It is longer than a
// stall, so a test still sees what happens within it.
const guardTTL = busyTimeout + time.Second

// hasty is for attempts that are repeated. TryAcquire repeats a tie until the node timeout is over.
var hasty = redlock.WithNodeTimeout(hastyTimeout())

// hastyTimeout is longer than a late node's delay, so such a node has a vote as well.
func hastyTimeout() time.Duration {
	if late.On() {
		return 2 * time.Second
	}
	return 500 * time.Millisecond
}

var errCut = errors.New("the client cannot reach the node")

// site has servers behind addresses that can be moved to other servers.
type site struct {
	mu    sync.Mutex        // guards what follows when the test's goroutine changes it and dials read it
	nodes []*redistest.Node // the servers behind the addresses of node 1, 2, …
	spare *redistest.Node   // a replica of the second server, for the faults that need one
}

// client opens a Locker that cannot reach the nodes with the given numbers.
func (s *site) client(t *testing.T, cut []int, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	nodes := make([]*pool.Node, len(s.nodes))
	for i := range s.nodes {
		out := false
		for _, number := range cut {
			out = out || number == i+1
		}
		n, err := pool.Open(pool.Config{
			Name: fmt.Sprintf("n%d", i+1), Address: s.nodes[i].Addr(),
			Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
				if out {
					return nil, errCut
				}
				var d net.Dialer
				return d.DialContext(ctx, network, s.addr(i))
			},
		})
		require.NoError(t, err)
		nodes[i] = n
	}
	l, err := redlock.New(nodes, append([]redlock.Option{redlock.WithNodeTimeout(busyTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func (s *site) addr(node int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[node].Addr()
}

// place moves the addresses to the given servers.
func (s *site) place(nodes []*redistest.Node, spare *redistest.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes, s.spare = nodes, spare
}

// fresh empties the servers and, with the guard, admits them.
func (s *site) fresh(t *testing.T, opts ...redlock.Option) {
	t.Helper()
	for _, n := range s.nodes {
		n.Do(t, "FLUSHALL")
	}
	if len(opts) == 0 {
		return
	}
	mustAdmit(t, s.client(t, nil, opts...), s.nodes)
}

// mirror makes the spare a replica of the second node, waits until it has all data, and cuts it
// off. The spare misses later writes, and can be promoted.
func (s *site) mirror(t *testing.T) {
	t.Helper()
	s.nodes[1].Do(t, "SET", "data", "replicated")
	follow(t, s.spare, s.nodes[1])
	s.spare.Do(t, "REPLICAOF", "NO", "ONE")
}

// follow makes a server a replica, and waits until it is synchronized.
func follow(t *testing.T, n, master *redistest.Node) {
	t.Helper()
	host, port := master.Inside(t)
	n.Do(t, "REPLICAOF", host, port)
	await(t, "the replica is synchronized", func() bool {
		info, err := n.Try("INFO", "replication")
		return err == nil && strings.Contains(string(info.([]byte)), "master_link_status:up")
	})
}

// amnesia is a fault that makes the second node forget a lock.
type amnesia struct {
	args   []string // of the servers
	spare  bool
	before func(t *testing.T, s *site) // before the lock is acquired
	strike func(t *testing.T, s *site, name string)
}

// admin sends a command to the second node.
func (s *site) admin(t *testing.T, cmd string, args ...any) {
	t.Helper()
	s.nodes[1].Do(t, cmd, args...)
}

func amnesias() map[string]amnesia {
	return map[string]amnesia{
		"SIGKILL without persistence (H48)": {strike: func(t *testing.T, s *site, _ string) {
			s.nodes[1].Kill(t)
			s.nodes[1].Restart(t)
		}},
		// A killed process loses nothing that it wrote. The test itself drops the last second, as a
		// crash of the machine does.
		"SIGKILL with AOF everysec (H49)": {
			args: []string{"--appendonly", "yes", "--appendfsync", "everysec"},
			strike: func(t *testing.T, s *site, name string) {
				s.admin(t, "DEL", name)
				// The server writes it before its reply, or up to two seconds later if the disk is busy.
				await(t, "the server has written it", func() bool {
					info, err := s.nodes[1].Try("INFO", "persistence")
					return err == nil && strings.Contains(string(info.([]byte)), "\r\naof_buffer_length:0\r\n")
				})
				s.nodes[1].Kill(t)
				s.nodes[1].Restart(t)
			},
		},
		"FLUSHALL (H51)": {strike: func(t *testing.T, s *site, _ string) { s.admin(t, "FLUSHALL") }},
		"FLUSHDB (H51)":  {strike: func(t *testing.T, s *site, _ string) { s.admin(t, "FLUSHDB") }},
		"SWAPDB (H51)":   {strike: func(t *testing.T, s *site, _ string) { s.admin(t, "SWAPDB", 0, 1) }},
		"a promoted replica (H37)": {
			spare: true, before: func(t *testing.T, s *site) { s.mirror(t) },
			strike: func(t *testing.T, s *site, _ string) {
				s.nodes[1].Kill(t)
				s.place([]*redistest.Node{s.nodes[0], s.spare, s.nodes[2]}, s.nodes[1])
			},
		},
		"failover and failback (H116)": {
			spare: true, before: func(t *testing.T, s *site) { s.mirror(t) },
			strike: func(t *testing.T, s *site, _ string) {
				follow(t, s.nodes[1], s.spare)
				s.admin(t, "REPLICAOF", "NO", "ONE")
			},
		},
	}
}

// A holds a lock on n1 and n2, the only nodes that A can reach. n2 forgets the lock. B starts then,
// and can reach n2 and n3. Without the guard B gets the lock at once. With the guard B gets it only
// after A's has ended. So the difference is due to the guard.
func TestANodeThatForgotALockGrantsItToNoOtherClientInItsTime(t *testing.T) {
	for what, c := range amnesias() {
		t.Run(what, func(t *testing.T) {
			s := c.site(t)
			t.Run("without the guard two clients hold the lock", func(t *testing.T) { c.overlap(t, s) })
			for tries, inTime := 1, false; !inTime; tries++ {
				require.LessOrEqual(t, tries, 3, "B was too late each time")
				if tries > 1 {
					s = c.site(t)
				}
				require.True(t, t.Run("with the guard one client holds the lock", func(t *testing.T) { inTime = c.guarded(t, s) }))
			}
		})
	}
}

func (c amnesia) site(t *testing.T) *site {
	t.Helper()
	args := append([]string{"--repl-diskless-sync-delay", "0"}, c.args...)
	s := &site{nodes: masters(t, 3, args...)}
	if c.spare {
		s.spare = redistest.Start(t, 1, args...)[0]
	}
	return s
}

func (c amnesia) overlap(t *testing.T, s *site) {
	t.Helper()
	if c.spare {
		defer func(nodes []*redistest.Node, spare *redistest.Node) {
			s.place(nodes, spare)
			s.nodes[1].Restart(t)
		}(append([]*redistest.Node(nil), s.nodes...), s.spare)
	}
	s.fresh(t)
	if c.before != nil {
		c.before(t, s)
	}
	a := acquired(t, s.client(t, []int{3}), "x", time.Minute)
	defer func() { _ = a.Release(context.Background()) }()
	c.strike(t, s, "x")
	b := acquired(t, s.client(t, []int{1}), "x", time.Minute)
	assert.Positive(t, a.Remaining(), "A still holds the lock")
	assert.Positive(t, b.Remaining())
	released(t, b)
}

// guarded reports whether B came in the quarantine. A machine that stops for all of it shows nothing of it.
func (c amnesia) guarded(t *testing.T, s *site) (inTime bool) {
	t.Helper()
	guard := redlock.WithRestartGuard(guardTTL)
	s.fresh(t, guard)
	if c.before != nil {
		c.before(t, s)
	}
	a := acquired(t, s.client(t, []int{3}, guard), "x", guardTTL)
	defer func() { _ = a.Release(context.Background()) }()
	c.strike(t, s, "x")
	l := s.client(t, []int{1}, guard)
	await(t, "B sees the quarantine, or gets the lock after it", func() bool {
		b, err := l.TryAcquire(t.Context(), "x", guardTTL)
		if err == nil {
			require.LessOrEqual(t, a.Remaining(), time.Duration(0), "A still holds the lock")
			released(t, b)
			return true
		}
		inTime = errors.Is(err, redlock.ErrQuarantined)
		return inTime
	})
	if !inTime {
		return false
	}
	b := acquired(t, l, "x", guardTTL)
	assert.LessOrEqual(t, a.Remaining(), time.Duration(0), "A still held the lock")
	assert.ErrorIs(t, context.Cause(a.Context()), redlock.ErrLost)
	assert.Positive(t, b.Remaining())
	released(t, b)
	return true
}

// An event after which nothing is forgotten starts no quarantine.
func TestAnEventThatForgetsNothingStartsNoQuarantine(t *testing.T) {
	s := &site{nodes: masters(t, 3, append(redistest.Freely(t), "--save", "3600 1")...)}
	guard := redlock.WithRestartGuard(time.Minute)
	s.fresh(t, guard)
	la, lb := s.client(t, []int{3}, guard), s.client(t, []int{1}, guard)
	refused := s.client(t, []int{1}, guard, hasty)
	for what, harmless := range map[string]func(){
		"DEBUG RELOAD": func() { s.admin(t, "DEBUG", "RELOAD") },
		"reconnection": func() { s.admin(t, "CLIENT", "KILL", "TYPE", "normal") },
	} {
		a := acquired(t, la, "x", time.Minute)
		harmless()
		_, err := refused.TryAcquire(t.Context(), "x", time.Minute)
		require.Error(t, err, what)
		await(t, "n2 votes", func() bool { // the end of its connection is reported once
			_, err = refused.TryAcquire(t.Context(), "x", time.Minute)
			require.Error(t, err, what)
			return errors.Is(err, redlock.ErrHeld)
		})
		released(t, a)
		released(t, acquired(t, lb, "x", time.Minute)) // a quarantine would last for a minute
	}
}
