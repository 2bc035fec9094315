package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// exchange holds the requests of an acquisition and its undo, in one allocation for up to three
// nodes. It is two thirds of a lock's memory. Most locks are released soon, and their exchange is
// then reused. A lock that is held for longer drops its exchange, and makes a new one for its undo.
type exchange struct {
	acquire round         // no ballots after Resume
	undo    round         // the release, or another undo
	wake    chan struct{} // of both rounds
	refs    atomic.Int32  // users that may still read it; see unref
	inline  [6]ballot
}

// shrinkAfter is how long a lock is held before it drops its exchange, and how soon it tries again
// if a node has not answered by then.
const shrinkAfter = 500 * time.Millisecond

// newExchange makes or reuses an exchange for lk. lk.terms must be set.
func (lk *Lock) newExchange() *exchange {
	n := len(lk.l.nodes)
	t, _ := lk.l.exchangePool.Get().(*exchange)
	if t == nil {
		t = &exchange{wake: make(chan struct{}, 1)}
		ballots := t.inline[:]
		if 2*n > len(ballots) {
			ballots = make([]ballot, 2*n)
		}
		t.acquire.ballots, t.undo.ballots = ballots[:n:n], ballots[n:2*n]
	}
	t.refs.Store(int32(2*n + 1)) // the answers, and the lock
	t.acquire.exchange, t.acquire.names, t.acquire.wake = t, lk.names, t.wake
	t.acquire.prepare(lk.l, nil, t.acquire.ballots)
	t.undo.exchange, t.undo.names, t.undo.wake = t, lk.names, t.wake
	t.undo.rule = faultAfterAll // a fault must not hide that the other nodes released the lock
	t.undo.prepare(lk.l, lk, t.undo.ballots)
	return t
}

// unref drops one reference to the exchange. The last one makes it available to another lock. There
// is one reference for each answer until it was handled, and one for the lock until its release has
// returned. Other users pin the exchange. An answer that is not final (see isFinal) keeps its
// reference, so the exchange is never reused (docs/dev/adr/0012-reuse-of-in-flight-state.md). Such an
// exchange costs memory but is never shared by mistake.
func (t *exchange) unref(l *Locker) {
	if t.refs.Add(-1) > 0 {
		return
	}
	acquire, undo := t.acquire.ballots, t.undo.ballots
	clear(acquire)
	clear(undo)
	*t = exchange{wake: t.wake}
	select {
	case <-t.wake: // left by a decision that no caller waited for
	default:
	}
	t.acquire.ballots, t.undo.ballots = acquire, undo
	l.exchangePool.Put(t)
}

// pendingUndo returns the pinned undo of a registered lock, or nil if the lock is not registered or
// has no undo. The last answer unregisters the lock before it drops its reference.
func (lk *Lock) pendingUndo() *round {
	lk.mu.Lock() // not sending, because nodes are called under that
	defer lk.mu.Unlock()
	lk.l.mu.Lock()
	defer lk.l.mu.Unlock()
	if lk.exchange == nil || lk.l.locks[lk.terms.Token] != lk {
		return nil
	}
	lk.exchange.undo.pin()
	return &lk.exchange.undo
}

// pin prevents the reuse of the round and its exchange. The caller must have a reference to it.
func (r *round) pin() {
	if r.exchange != nil {
		r.exchange.refs.Add(1)
	}
}

// isFinal reports whether a node no longer uses a command after this answer.
func isFinal(c *command.Command, rep command.Reply) bool {
	once := c.Retries == 0 && !c.WasResent()
	return once && (rep.NotSent || rep.Outcome == command.Granted && !rep.WillRetry)
}

// renewExchange makes a new exchange for a lock that has dropped its own, without an acquire.
func (lk *Lock) renewExchange() {
	t := lk.newExchange()
	t.acquire.ballots = nil
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.exchange = t
}

// dropExchangeLocked drops the exchange of a lock that is held for long, once every node has
// answered the acquire. It keeps only the set of nodes that hold nothing.
func (lk *Lock) dropExchangeLocked(now clock.Instant) {
	if now.Before(lk.nextShrink) {
		return
	}
	lk.nextShrink = now.Add(shrinkAfter)
	if lk.exchange != nil {
		holding, all := lk.exchange.acquire.mayHold()
		if !all {
			return
		}
		lk.exchange, lk.mayHold = nil, holding
	}
	lk.nextShrink = noDeadline
}

// mayHold lists the nodes that may hold keys of the acquire; nil stands for all. answered reports
// that every node has answered, so nothing is in flight.
func (r *round) mayHold() (nodes []bool, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ballots) == 0 {
		return nil, true // resumed: another handle acquired it
	}
	for i := range r.ballots {
		b := &r.ballots[i]
		if !b.replied {
			return nil, false
		}
		if b.leftNothing() && nodes == nil {
			nodes = make([]bool, len(r.ballots))
			for n := range nodes {
				nodes[n] = true
			}
		}
		if b.leftNothing() {
			nodes[i] = false
		}
	}
	return nodes, true
}

// leftNothing reports whether an answered acquire left nothing on the node.
func (b *ballot) leftNothing() bool { return b.notSent || b.outcome == command.Refused }
