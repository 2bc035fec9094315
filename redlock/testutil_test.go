package redlock

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/background"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/pool"
)

// The masters' scripts are short-lived garbage.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

// patient is for tests in real time: a busy machine answers late.
var patient = WithNodeTimeout(20 * time.Second)

// maxLate bounds the delay of a late master: below the default node timeout.
const maxLate = maxNodeTimeout - 50*time.Millisecond

// testbed has the nodes of a Locker in a bubble: the real client over in-memory connections, in
// virtual time.
type testbed struct {
	t       *testing.T
	masters []*fakeredis.Master
	clock   *clocktest.Skewed // of every Locker that the testbed makes
	late    *late.Set         // which master is late, for which Lockers
	two     bool              // take acquires two names if it is given one
}

// inBubble runs f on n masters in virtual time. The bubble fails if a goroutine is left at its end.
func inBubble(t *testing.T, n int, f func(fl *testbed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &testbed{t: t, clock: clocktest.NewSkewed(clock.Runtime()), late: late.Within(t, n, maxLate)}
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

// inBubbles runs f as inBubble does, once for locks on one name, and once for locks on two: then
// take adds a name to the one that it is given.
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

// locker makes a Locker with nodes of its own that are connected, as in another process. It is closed
// when the test ends.
func (fl *testbed) locker(opts ...Option) *Locker {
	fl.t.Helper()
	nodes := make([]*pool.Node, len(fl.masters))
	for i, m := range fl.masters {
		nodes[i] = fl.node(m, pool.Config{})
	}
	l, err := New(nodes, append([]Option{WithClock(fl.clock), WithOwner("")}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { fl.close(l) })
	testbeds.Store(l, fl)
	fl.t.Cleanup(func() { testbeds.Delete(l) })
	synctest.Wait() // the first dials are finished
	return l
}

// lateAt makes that master the one that may be late, for the Lockers that are made from now on. A test
// that makes a master fail calls it: if a second one is late, no majority is in time.
func (fl *testbed) lateAt(master int) { fl.late.At(master) }

// testbeds has the testbed of each Locker that one has made.
var testbeds sync.Map

// bedOf returns the testbed that has made a Locker, or nil.
func bedOf(l *Locker) *testbed {
	fl, _ := testbeds.Load(l)
	bed, _ := fl.(*testbed)
	return bed
}

// node makes one client's node. Each client sees the late master late or in time.
func (fl *testbed) node(m *fakeredis.Master, cfg pool.Config) *pool.Node {
	fl.t.Helper()
	cfg.Name, cfg.Address, cfg.Dial, cfg.Clock = m.Name(), m.Addr(), m.Dial, fl.clock
	if fl.late.Is(slices.Index(fl.masters, m)) {
		cfg.Dial = m.DialLate(fl.late.Next())
	}
	n, err := pool.Open(cfg)
	require.NoError(fl.t, err)
	return n
}

// voter makes one client's node of a master, as its Locker uses it.
func (fl *testbed) voter(master int) command.Voter {
	fl.t.Helper()
	return command.FromPool(fl.node(fl.masters[master], pool.Config{}))
}

// answered returns when every master has executed and answered all that it was sent. A call returns
// when a majority has answered, so a test calls it before it looks at the masters, or ends one of
// them. It takes no virtual time but in late mode.
func (fl *testbed) answered() {
	synctest.Wait()
	if fl == nil {
		return // fake nodes
	}
	for range 3 { // an answer may lead to one more request, such as an undo
		var wait time.Duration
		fl.each(func(m *fakeredis.Master) { wait = max(wait, m.Arriving()) })
		if wait == 0 {
			return
		}
		pass(wait)
	}
}

// withBackoff bounds the pauses between attempts.
func withBackoff(shortest, longest time.Duration) Option {
	return option(func(s *settings) { s.backoff = waiting.Backoff{Min: shortest, Max: longest} })
}

// heldEverywhere requires that every master has the key, once all have answered.
func (fl *testbed) heldEverywhere(key string) {
	fl.t.Helper()
	fl.answered()
	require.Equal(fl.t, len(fl.masters), fl.keys(key), "masters that have %q", key)
}

// releasedEverywhere requires that no master has the key, once all have answered.
func (fl *testbed) releasedEverywhere(key string) {
	fl.t.Helper()
	fl.answered()
	require.Zero(fl.t, fl.keys(key), "masters that have %q", key)
}

// close closes a Locker. It spends no virtual time on locks that are held.
func (fl *testbed) close(l *Locker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Close(ctx)
}

// keys returns the number of masters that have a key.
func (fl *testbed) keys(key string) int {
	n := 0
	for _, m := range fl.masters {
		if _, ok := m.Get(key); ok {
			n++
		}
	}
	return n
}

// newOver makes a Locker over nodes that need not be package pool's.
func newOver(nodes []command.Voter, opts ...Option) (*Locker, error) {
	return newLocker(nodes, opts)
}

// plain has what the fake nodes of the tests do alike.
type plain struct{ command.Voter }

func (plain) String() string                                  { return "" }
func (plain) Join(*command.Membership) error                  { return nil }
func (plain) Close() error                                    { return nil }
func (plain) Kind() command.NodeKind                          { return command.NodeKind{Recovery: 10 * time.Second} }
func (plain) WhyNotVoting() error                             { return nil }
func (plain) Subscribe(command.Listener) command.Subscription { return nil }

// fakeNode is a Node in fewer than a hundred lines: a map, and a script of what to answer. The zero
// script answers as a master would, at once.
type fakeNode struct {
	plain
	name string
	// script may answer a command itself (true), hold it back and answer later, or
	// let the node act on it (false).
	script func(n *fakeNode, c *command.Command) bool

	later *background.Queue[func()]

	mu   sync.Mutex
	held map[string]string
	seen []*command.Command
}

func newFake(name string) *fakeNode {
	return &fakeNode{name: name, held: map[string]string{}, later: background.NewQueue(0, func(act func()) { act() })}
}

func (n *fakeNode) Name() string { return n.name }

// Submit has the node act on the commands. It does so at once, which saves tests a wait, but on another
// goroutine if a Lock submits under its mutex.
func (n *fakeNode) Submit(c, behind *command.Command) error {
	n.mu.Lock()
	n.seen = append(n.seen, c)
	n.mu.Unlock()
	script := n.script
	act := func() {
		if script == nil || !script(n, c) {
			n.act(c)
		}
	}
	if c.Op == command.Extend || c.Op == command.Repair {
		n.later.Add(act)
	} else {
		act()
	}
	if behind != nil {
		return n.Submit(behind, nil)
	}
	return nil
}

// act executes a command and answers it.
func (n *fakeNode) act(c *command.Command) {
	if !c.MarkSent() {
		c.Answer(command.Reply{Outcome: command.Failed, NotSent: true, Err: command.ErrGivenUp})
		return
	}
	c.Answer(n.execute(c))
}

// execute executes a command on the map, and returns what a master would answer.
func (n *fakeNode) execute(c *command.Command) command.Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	ours, free := 0, 0
	for _, k := range c.Keys {
		switch n.held[k] {
		case "":
			free++
		case c.Token():
			ours++
		}
	}
	all := len(c.Keys)
	switch c.Op {
	case command.Acquire:
		if free == all {
			for _, k := range c.Keys {
				n.held[k] = c.Token()
			}
			return command.Reply{Outcome: command.Granted}
		}
	case command.Extend, command.Shorten:
		if ours == all {
			return command.Reply{Outcome: command.Granted}
		}
	case command.Release:
		for _, k := range c.Keys {
			if n.held[k] == c.Token() {
				delete(n.held, k)
			}
		}
		if ours == all {
			return command.Reply{Outcome: command.Granted}
		}
	case command.Inspect:
		r := command.Reply{Outcome: command.Granted}
		for _, k := range c.Keys {
			r.KeyStates = append(r.KeyStates, command.KeyState{Value: n.held[k], TTL: time.Minute})
		}
		return r
	case command.Poll:
		if free == all {
			return command.Reply{Outcome: command.Granted}
		}
		return command.Reply{Outcome: command.Refused, Left: time.Minute}
	case command.Ping:
		return command.Reply{Outcome: command.Granted}
	}
	return command.Reply{Outcome: command.Refused}
}

// commands lists the commands of one operation that the node was sent.
func (n *fakeNode) commands(op command.Op) []*command.Command {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*command.Command
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
	nodes := make([]command.Voter, n)
	for i := range list {
		list[i] = newFake(fmt.Sprintf("n%d", i+1))
		nodes[i] = list[i]
	}
	l, err := newOver(nodes, append([]Option{WithOwner("")}, opts...)...)
	require.NoError(t, err)
	return list, l
}

func TestALockIsAcquiredExtendedCheckedAndReleasedOnRealCode(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		l := fl.locker(WithOwner("me"))
		k, err := l.Acquire(ctx, "a", 2*time.Second)
		require.NoError(t, err)
		fl.heldEverywhere("a")
		_, err = fl.locker().TryAcquire(ctx, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.Regexp(t, `held by "me" for (2|1\.\d+)s more`, err.Error())
		require.NoError(t, k.Extend(ctx, 5*time.Second))
		require.NoError(t, k.Check(ctx))
		require.Equal(t, 4943*time.Millisecond, k.Remaining())
		require.NoError(t, k.Release(ctx))
		fl.releasedEverywhere("a")
		require.ErrorIs(t, context.Cause(k.Context()), ErrReleased)
	})
}

// booked returns the number of a Locker's leases: being acquired, held, or being undone.
func booked(l *Locker) int {
	return len(l.registry.all())
}

func TestInLateModeTheThirdMasterExecutesLate(t *testing.T) {
	behind := 0
	for _, seed := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
		t.Setenv(late.Variable, seed)
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			require.Zero(t, elapsed(func() {
				_, err := l.TryAcquire(bg, "a", time.Minute)
				require.NoError(t, err)
			}), "connections are made in time, and a majority answers at once")
			synctest.Wait()
			if fl.keys("a") == 2 {
				behind++
			}
			fl.heldEverywhere("a")
		})
	}
	require.Greater(t, behind, 3)
	require.Less(t, behind, 10)
}
