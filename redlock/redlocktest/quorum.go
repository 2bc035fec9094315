package redlocktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/embedded"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// T is what a Quorum needs of a test: a *testing.T, *testing.B or *testing.F is one, and so is what frameworks have in their place.
type T interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// Quorum is a set of masters in memory. Masters are numbered from 0, and are called "n1", "n2" and so on in votes and errors.
//
// A name is a lock's key: with redlock.WithKeyPrefix it begins with the prefix. A number without a master ends the
// test.
//
// All methods may be called from any goroutine, but those that can't do what they are told end the test by T.Fatalf, which belongs on
// the goroutine of the test.
type Quorum struct {
	t       T
	masters []*embedded.Master
	clock   *clock.Skewed

	mu     sync.Mutex // guards what follows; nothing is waited for under it
	nodes  [][]*pool.Node
	faulty map[int]bool  // masters that do not answer at once
	ahead  time.Duration // by which the clocks were advanced
}

// redialMost bounds the pause before a stopped master is dialled again. It is shorter than pool's default, so that a test that starts
// one again need not wait for it, and long enough for tests that let hours of virtual time pass.
const redialMost = 20 * time.Millisecond

// New makes n masters, 1 to 9, that are up and empty. They end with the test, and so does whatever the Quorum made.
func New(t T, n int) *Quorum {
	t.Helper()
	if n < 1 || n > 9 {
		t.Fatalf("redlocktest: %d masters: 1 to 9", n)
	}
	q := &Quorum{t: t, clock: clock.NewSkewed(clock.Runtime()), faulty: map[int]bool{}}
	for i := range n {
		q.masters = append(q.masters, embedded.New(fmt.Sprintf("n%d", i+1)))
	}
	t.Cleanup(q.close)
	return q
}

// Locker makes a Locker with connections and a queue of its own, as another process would have. It follows the Quorum's clock. When
// the test ends it is closed without waiting for what is held: a program that is to be tested on its way out closes it itself.
func (q *Quorum) Locker(opts ...redlock.Option) *redlock.Locker {
	q.t.Helper()
	l, err := redlock.New(q.Nodes(), append([]redlock.Option{redlock.WithClock(q.clock)}, opts...)...)
	if err != nil {
		q.t.Fatalf("redlocktest: %v", err)
	}
	q.t.Cleanup(func() { closeNow(l) })
	return l
}

// Nodes makes a node for each master, for a program that calls [redlock.New] by itself: it gives redlock.WithClock([Quorum.Clock])
// there. Those of masters without a fault are connected. The nodes end with the test.
func (q *Quorum) Nodes() []redlock.Node {
	q.t.Helper()
	list := make([]redlock.Node, len(q.masters))
	made := make([]*pool.Node, len(q.masters))
	for i, m := range q.masters {
		n, err := pool.Open(pool.Config{
			Name: m.Name(), Address: m.Addr(), Dial: m.Dial, Clock: q.clock, RedialMin: time.Millisecond, RedialMax: redialMost,
		})
		if err != nil {
			q.t.Fatalf("redlocktest: %v", err)
		}
		list[i], made[i] = n, n
	}
	q.mu.Lock()
	q.nodes = append(q.nodes, made)
	var sound []int
	for i := range q.masters {
		if !q.faulty[i] {
			sound = append(sound, i)
		}
	}
	q.mu.Unlock()
	q.connected(sound) // so that a busy machine costs the first call nothing
	return list
}

// Clock is the time of the Quorum's Lockers and nodes.
func (q *Quorum) Clock() clock.Clock { return q.clock }

func (q *Quorum) close() {
	q.mu.Lock()
	nodes := q.nodes
	q.mu.Unlock()
	for _, set := range nodes {
		for _, n := range set {
			_ = n.Close() // of connections in memory, at the end of a test
		}
	}
	for _, m := range q.masters {
		m.Close()
	}
}

// closeNow waits for nobody.
func closeNow(l *redlock.Locker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Close(ctx) // what is still held is the test's
}
