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

// Advance advances the clocks by d at once, those of the Lockers first and then those of the
// servers. A process that was paused for d, by its scheduler, its collector or its machine, sees
// the same: everything due within d is due now. A lock with less than d of validity is therefore
// lost, even with automatic extension. To keep it, advance in smaller steps, or use a bubble.
// Contexts end on other goroutines: wait for Done, do not poll Err.
func (q *Quorum) Advance(d time.Duration) {
	q.t.Helper()
	if d < 0 {
		q.t.Fatalf("redlocktest: Advance(%v): time does not go back", d)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	// Timers of the Lockers query the servers at once. No server may answer by a clock that is
	// behind: a quarantine that is over would last another d.
	for _, m := range q.masters {
		defer m.Pause()()
	}
	q.clock.Advance(d)
	q.ahead += d
	for _, m := range q.masters {
		m.SetClock(q.ahead)
	}
}

// ExpireNow lets the lease on a name expire now, as if its holder was paused for too long. The
// holder's context ends with cause redlock.ErrLost, and the name is free. ExpireNow uses Advance,
// so it also ends every other lock with no more validity left. If no server has the name's key, the
// test ends.
func (q *Quorum) ExpireNow(name string) {
	q.t.Helper()
	var left time.Duration
	for _, m := range q.masters {
		left = max(left, m.TTL(name))
	}
	if left <= 0 {
		q.t.Fatalf("redlocktest: ExpireNow(%q): no server has an expiring key of that name", name)
		return
	}
	q.Advance(left + time.Millisecond)
}

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
