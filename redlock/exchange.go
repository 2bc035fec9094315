package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// exchange is what an acquisition and its undo need to talk to the nodes, in one allocation for
// up to three nodes. Most locks are given back soon, and leave it to the next one. One that is
// held for longer gives it up, and makes it anew for its undo: it is two thirds of a lock.
type exchange struct {
	acquire round         // no ballots after Resume
	undo    round         // the release, or whatever undoes it
	wake    chan struct{} // of both
	refs    atomic.Int32  // who may still look at it; see unref
	inline  [6]ballot
}

// shrinkAfter is how long a lock is held until it gives up its talk, and how soon it tries
// again when a node has not answered by then.
const shrinkAfter = 500 * time.Millisecond

// newExchange makes what k needs to be acquired and undone. Its terms must be set.
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
	t.refs.Store(int32(2*n + 1)) // the answers, and its lock
	t.acquire.exchange, t.acquire.names, t.acquire.wake = t, lk.names, t.wake
	t.acquire.prepare(lk.l, nil, t.acquire.ballots)
	t.undo.exchange, t.undo.names, t.undo.wake = t, lk.names, t.wake
	t.undo.rule = faultAfterAll // a fault must not hide that the others released it
	t.undo.prepare(lk.l, lk, t.undo.ballots)
	return t
}

// unref tells that one of those who may look at the talk never will again. Behind the last
// one it is another lock's. Counted are the users of a lock whose every answer is plain: each
// answer until it was dealt with, and the lock until its release has returned. Whatever else
// gets to know the talk keeps it, and so does every other answer, by not letting go: then it
// is nobody's again (docs/adr/0012-a-locks-talk-is-used-again.md). That errs on the side of
// memory.
func (t *exchange) unref(l *Locker) {
	if t.refs.Add(-1) > 0 {
		return
	}
	acquire, undo := t.acquire.ballots, t.undo.ballots
	clear(acquire)
	clear(undo)
	*t = exchange{wake: t.wake}
	select {
	case <-t.wake: // of a decision that nobody had to wait for
	default:
	}
	t.acquire.ballots, t.undo.ballots = acquire, undo
	l.exchangePool.Put(t)
}

// pendingUndo is the undo of a lease that is in the books, kept; nil of others, and while there is
// none. The last answer takes the lease out of the books before it lets go.
func (lk *Lock) pendingUndo() *round {
	lk.mu.Lock() // and not sending, under which nodes are called
	defer lk.mu.Unlock()
	lk.l.mu.Lock()
	defer lk.l.mu.Unlock()
	if lk.exchange == nil || lk.l.locks[lk.terms.Token] != lk {
		return nil
	}
	lk.exchange.undo.pin()
	return &lk.exchange.undo
}

// pin has a round, and the talk that it is a part of, never be used again. The caller must
// be somebody who has not let go of it.
func (r *round) pin() {
	if r.exchange != nil {
		r.exchange.refs.Add(1)
	}
}

// isFinal reports whether a node has nothing to do with a command any more that it answered so.
func isFinal(c *wire.Command, rep wire.Reply) bool {
	once := c.Retries == 0 && !c.WasResent()
	return once && (rep.NotSent || rep.Outcome == wire.Granted && !rep.WillRetry)
}

// renewExchange makes anew what rest gave up. Nothing is left of the acquire.
func (lk *Lock) renewExchange() {
	t := lk.newExchange()
	t.acquire.ballots = nil
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.exchange = t
}

// dropExchangeLocked gives up the talk of a lock that goes on being held, once every node has answered
// the acquire: what is left of that is which nodes hold nothing. Called under mu.
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

// mayHold lists the nodes that may hold what an acquire asked for, nil for all of them.
// Answered tells that each has said so: nothing of it is under way.
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

// leftNothing reports whether an answered acquire surely left nothing on the node.
func (b *ballot) leftNothing() bool { return b.notSent || b.outcome == wire.Refused }
