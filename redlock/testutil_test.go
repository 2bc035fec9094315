package redlock

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// The masters' scripts are short-lived garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// testbed is the nodes of a Locker in a bubble: the real client over in-memory
// connections, in virtual time.
type testbed struct {
	t       *testing.T
	masters []*fakeredis.Master
	clock   *clock.Skewed // of every Locker that the testbed makes
	two     bool          // where take is asked for one name it takes two
}

// inBubble runs f on n masters in virtual time. At its end no goroutine may be
// left, or the bubble fails.
func inBubble(t *testing.T, n int, f func(fl *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &testbed{t: t, clock: clock.NewSkewed(clock.Runtime())}
		for i := range n {
			fl.masters = append(fl.masters, fakeredis.New(fmt.Sprintf("n%d", i+1)))
		}
		defer func() {
			for _, m := range fl.masters {
				m.Close()
			}
		}()
		f(fl)
	})
}

// inBubbles runs f as inBubble does, once for locks on one name, and once for locks on two: then take adds a
// name to the one that it is given.
func inBubbles(t *testing.T, n int, f func(fl *testbed)) {
	t.Helper()
	for name, two := range map[string]bool{"one name": false, "two names": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, n, func(fl *testbed) {
				fl.two = two
				f(fl)
			})
		})
	}
}

// locker makes a Locker with nodes of its own, connected, as another process would
// have. It is closed, nodes and all, when the test ends.
func (fl *testbed) locker(opts ...Option) *Locker {
	fl.t.Helper()
	nodes := make([]Node, len(fl.masters))
	for i, m := range fl.masters {
		nodes[i] = fl.node(m, pool.Config{})
	}
	l, err := New(nodes, append([]Option{WithClock(fl.clock)}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { fl.close(l) })
	if fl.two {
		withTwo.Store(l, true)
		fl.t.Cleanup(func() { withTwo.Delete(l) })
	}
	synctest.Wait() // the first dials are through
	return l
}

func (fl *testbed) node(m *fakeredis.Master, cfg pool.Config) *pool.Node {
	fl.t.Helper()
	cfg.Name, cfg.Address, cfg.Dial, cfg.Clock = m.Name(), m.Addr(), m.Dial, fl.clock
	n, err := pool.Open(cfg)
	require.NoError(fl.t, err)
	return n
}

// close ends a Locker and its nodes; it waits no virtual time for what is held.
func (fl *testbed) close(l *Locker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Close(ctx)
	for _, n := range l.nodes {
		if p, ok := n.(*pool.Node); ok {
			_ = p.Close()
		}
	}
}

// keys counts on how many masters a key stands.
func (fl *testbed) keys(key string) int {
	n := 0
	for _, m := range fl.masters {
		if _, ok := m.Get(key); ok {
			n++
		}
	}
	return n
}

// fakeNode is a Node in fewer than a hundred lines: a map, and a script of what to
// answer. The zero script answers as a master would, at once.
type fakeNode struct {
	name string
	// script may answer a command itself (true), hold it back and answer later, or
	// let the node act on it (false).
	script func(n *fakeNode, c *wire.Command) bool

	mu   sync.Mutex
	held map[string]string
	seen []*wire.Command
}

func newFake(name string) *fakeNode { return &fakeNode{name: name, held: map[string]string{}} }

func (n *fakeNode) Name() string { return n.name }

func (n *fakeNode) Submit(c *wire.Command) {
	n.mu.Lock()
	n.seen = append(n.seen, c)
	n.mu.Unlock()
	if n.script == nil || !n.script(n, c) {
		n.act(c)
	}
}

// act executes a command and answers it.
func (n *fakeNode) act(c *wire.Command) {
	if !c.MarkSent() {
		c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true, Err: wire.ErrGivenUp})
		return
	}
	c.Answer(n.execute(c))
}

// execute does what a command says, and returns what a master would answer.
func (n *fakeNode) execute(c *wire.Command) wire.Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	ours, free := 0, 0
	for _, k := range c.Keys {
		switch n.held[k] {
		case "":
			free++
		case c.Token:
			ours++
		}
	}
	all := len(c.Keys)
	switch c.Op {
	case wire.Acquire:
		if free == all {
			for _, k := range c.Keys {
				n.held[k] = c.Token
			}
			return wire.Reply{Outcome: wire.Granted}
		}
	case wire.Extend, wire.Shorten:
		if ours == all {
			return wire.Reply{Outcome: wire.Granted}
		}
	case wire.Release:
		for _, k := range c.Keys {
			if n.held[k] == c.Token {
				delete(n.held, k)
			}
		}
		if ours == all {
			return wire.Reply{Outcome: wire.Granted}
		}
	case wire.Inspect:
		r := wire.Reply{Outcome: wire.Granted}
		for _, k := range c.Keys {
			r.KeyStates = append(r.KeyStates, wire.KeyState{Value: n.held[k], TTL: time.Minute})
		}
		return r
	case wire.Poll:
		if free == all {
			return wire.Reply{Outcome: wire.Granted}
		}
		return wire.Reply{Outcome: wire.Refused, Left: time.Minute}
	case wire.Ping:
		return wire.Reply{Outcome: wire.Granted}
	}
	return wire.Reply{Outcome: wire.Refused}
}

// commands lists what the node was sent, of one operation.
func (n *fakeNode) commands(op wire.Op) []*wire.Command {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*wire.Command
	for _, c := range n.seen {
		if c.Op == op {
			found = append(found, c)
		}
	}
	return found
}

// fakes makes n fake nodes and a Locker over them.
func fakes(t *testing.T, n int, opts ...Option) ([]*fakeNode, *Locker) {
	t.Helper()
	list := make([]*fakeNode, n)
	nodes := make([]Node, n)
	for i := range list {
		list[i] = newFake(fmt.Sprintf("n%d", i+1))
		nodes[i] = list[i]
	}
	l, err := New(nodes, opts...)
	require.NoError(t, err)
	return list, l
}

func TestALockIsAcquiredExtendedCheckedAndReleasedOnRealCode(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker(WithOwner("me"))
		k, err := l.Acquire(ctx, "a", 2*time.Second)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 3, fl.keys("a"))
		_, err = fl.locker().TryAcquire(ctx, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorContains(t, err, `held by "me" for 2s more`)
		require.NoError(t, k.Extend(ctx, 5*time.Second))
		require.NoError(t, k.Check(ctx))
		require.Equal(t, 4943*time.Millisecond, k.Remaining())
		require.NoError(t, k.Release(ctx))
		synctest.Wait()
		require.Zero(t, fl.keys("a"))
		require.ErrorIs(t, context.Cause(k.Context()), ErrReleased)
	})
}

// booked is how many leases a Locker has in its books: under way, held, or being undone.
func booked(l *Locker) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.locks)
}
