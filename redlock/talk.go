package redlock

import (
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// talk is what an acquisition and its undo need to talk to the nodes, in one allocation for
// up to three nodes. Most locks are given back soon, and leave it to the next one. One that is
// held for longer gives it up, and makes it anew for its undo: it is two thirds of a lock.
type talk struct {
	acquire round         // no ballots after Resume
	undo    round         // the release, or whatever undoes it
	wake    chan struct{} // of both
	users   atomic.Int32  // who may still look at it; see letGo
	few     [6]ballot
}

// restAfter is how long a lock is held until it gives up its talk, and how soon it tries
// again when a node has not answered by then.
const restAfter = 500 * time.Millisecond

// newTalk makes what k needs to be acquired and undone. Its terms must be set.
func (k *Lock) newTalk() *talk {
	n := len(k.l.nodes)
	t, _ := k.l.talks.Get().(*talk)
	if t == nil {
		t = &talk{wake: make(chan struct{}, 1)}
		ballots := t.few[:]
		if 2*n > len(ballots) {
			ballots = make([]ballot, 2*n)
		}
		t.acquire.ballots, t.undo.ballots = ballots[:n:n], ballots[n:2*n]
	}
	t.users.Store(int32(2*n + 1)) // the answers, and its lock
	t.acquire.talk, t.acquire.names, t.acquire.wake = t, k.names, t.wake
	t.acquire.prepare(k.l, nil, t.acquire.ballots)
	t.undo.talk, t.undo.names, t.undo.wake = t, k.names, t.wake
	t.undo.pace = faultPatient // a fault must not hide that the others released it
	t.undo.prepare(k.l, k, t.undo.ballots)
	return t
}

// letGo tells that one of those who may look at the talk never will again. Behind the last
// one it is another lock's. Counted are the users of a lock whose every answer is plain: each
// answer until it was dealt with, and the lock until its release has returned. Whatever else
// gets to know the talk keeps it, and so does every other answer, by not letting go: then it
// is nobody's again (docs/adr/0012-a-locks-talk-is-used-again.md). That errs on the side of
// memory.
func (t *talk) letGo(l *Locker) {
	if t.users.Add(-1) > 0 {
		return
	}
	acquire, undo := t.acquire.ballots, t.undo.ballots
	clear(acquire)
	clear(undo)
	*t = talk{wake: t.wake}
	select {
	case <-t.wake: // of a decision that nobody had to wait for
	default:
	}
	t.acquire.ballots, t.undo.ballots = acquire, undo
	l.talks.Put(t)
}

// undoing is the undo of a lease that is in the books, kept; nil of others, and while there is
// none. The last answer takes the lease out of the books before it lets go.
func (k *Lock) undoing() *round {
	k.mu.Lock() // and not sending, under which nodes are called
	defer k.mu.Unlock()
	k.l.mu.Lock()
	defer k.l.mu.Unlock()
	if k.talk == nil || k.l.leases[k.terms.Token] != k {
		return nil
	}
	k.talk.undo.keep()
	return &k.talk.undo
}

// keep has a round, and the talk that it is a part of, never be used again. The caller must
// be somebody who has not let go of it.
func (r *round) keep() {
	if r.talk != nil {
		r.talk.users.Add(1)
	}
}

// plain reports whether a node has nothing to do with a command any more that it answered so.
func plain(c *wire.Command, rep wire.Reply) bool {
	once := c.Retries == 0 && !c.WasResent()
	return once && (rep.NotSent || rep.Outcome == wire.Granted && !rep.WillRetry)
}

// renewTalk makes anew what rest gave up. Nothing is left of the acquire.
func (k *Lock) renewTalk() {
	t := k.newTalk()
	t.acquire.ballots = nil
	k.mu.Lock()
	defer k.mu.Unlock()
	k.talk = t
}

// rest gives up the talk of a lock that goes on being held, once every node has answered
// the acquire: what is left of that is which nodes hold nothing. Called under mu.
func (k *Lock) rest(now clock.Instant) {
	if now.Before(k.nextRest) {
		return
	}
	k.nextRest = now.Add(restAfter)
	if k.talk != nil {
		holding, all := k.talk.acquire.holding()
		if !all {
			return
		}
		k.talk, k.holding = nil, holding
	}
	k.nextRest = never
}

// holding lists the nodes that may hold what an acquire asked for, nil for all of them.
// Answered tells that each has said so: nothing of it is under way.
func (r *round) holding() (nodes []bool, answered bool) {
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
		if b.clean() && nodes == nil {
			nodes = make([]bool, len(r.ballots))
			for n := range nodes {
				nodes[n] = true
			}
		}
		if b.clean() {
			nodes[i] = false
		}
	}
	return nodes, true
}

// clean reports whether an answered acquire surely left nothing on the node.
func (b *ballot) clean() bool { return b.unsent || b.outcome == wire.Refused }
