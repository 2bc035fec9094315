package redlocktest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// T is the part of a test that a Quorum needs. *testing.T, *testing.B and *testing.F implement it,
// and so do their counterparts in test frameworks.
type T interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// Quorum is a set of in-memory servers. Servers are numbered from 0 in arguments, and named "n1",
// "n2" and so on in votes and errors. A number without a server ends the test.
//
// A name is a lock's key: with redlock.WithKeyPrefix it includes the prefix.
//
// All methods are safe for concurrent use. A method that fails ends the test by T.Fatalf, which
// must be called from the goroutine of the test.
type Quorum struct {
	t       T
	masters []*fakeredis.Master
	clock   *clocktest.Skewed

	mu     sync.Mutex // guards the fields below; nothing blocks under it
	nodes  [][]*pool.Node
	faulty map[int]bool  // servers that do not answer at once
	ahead  time.Duration // how far the clocks were advanced
}

// maxRedial bounds the pause before a stopped server is dialled again. It is shorter than pool's
// default, so that a test does not wait for a restarted server. It is long enough for tests that
// let hours of virtual time pass.
const maxRedial = 20 * time.Millisecond

// New makes n servers, 1 to 9, that are up and empty. The servers, and everything that the Quorum
// makes, end with the test.
func New(t T, n int) *Quorum {
	t.Helper()
	if n < 1 || n > 9 {
		t.Fatalf("redlocktest: %d servers: 1 to 9", n)
	}
	q := &Quorum{t: t, clock: clocktest.NewSkewed(clock.Runtime()), faulty: map[int]bool{}}
	for i := range n {
		q.masters = append(q.masters, fakeredis.New(fmt.Sprintf("n%d", i+1)))
	}
	t.Cleanup(q.close)
	return q
}

// Locker makes a Locker with its own connections and queue, as in another process. It follows the
// Quorum's clock. At the end of the test it is closed without waiting for held locks. A program
// whose shutdown is tested closes it itself.
func (q *Quorum) Locker(opts ...redlock.Option) *redlock.Locker {
	q.t.Helper()
	l, err := redlock.New(q.Nodes(), append([]redlock.Option{redlock.WithClock(q.clock)}, opts...)...)
	if err != nil {
		q.t.Fatalf("redlocktest: %v", err)
	}
	q.t.Cleanup(func() { closeNow(l) })
	return l
}

// Nodes makes a node for each server, for a program that calls [redlock.New] itself. The program
// must pass redlock.WithClock([Quorum.Clock]) to New. Nodes of servers without a fault are
// connected. The nodes end with the test at the latest.
func (q *Quorum) Nodes() []*pool.Node {
	q.t.Helper()
	made := make([]*pool.Node, len(q.masters))
	for i, m := range q.masters {
		n, err := pool.Open(pool.Config{
			Name: m.Name(), Address: m.Addr(), Dial: m.Dial, Clock: q.clock, RedialMin: time.Millisecond, RedialMax: maxRedial,
		})
		if err != nil {
			q.t.Fatalf("redlocktest: %v", err)
		}
		made[i] = n
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
	q.connected(sound) // so that the first call does not fail on a busy machine
	return made
}

// Clock returns the clock of the Quorum's Lockers and nodes.
func (q *Quorum) Clock() clock.Clock { return q.clock }

func (q *Quorum) close() {
	q.mu.Lock()
	nodes := q.nodes
	q.mu.Unlock()
	for _, set := range nodes {
		for _, n := range set {
			_ = n.Close() // in-memory connections at the end of a test
		}
	}
	for _, m := range q.masters {
		m.Close()
	}
}

// closeNow closes a Locker without waiting.
func closeNow(l *redlock.Locker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.Close(ctx) // held locks are the test's business
}
