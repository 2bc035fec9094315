package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// talk is what an acquisition and its undo need to talk to the nodes, in one allocation for
// up to three nodes. Most locks are given back soon. One that is held for longer gives it
// up, and makes it anew for its undo: it is three quarters of a lock.
type talk struct {
	acquire round         // no ballots after Resume
	undo    round         // the release, or whatever undoes it
	wake    chan struct{} // of both
	few     [6]ballot
}

// restAfter is how long a lock is held until it gives up its talk, and how soon it tries
// again when a node has not answered by then.
const restAfter = 500 * time.Millisecond

// newTalk makes what k needs to be acquired and undone. Its terms must be set.
func (k *Lock) newTalk() *talk {
	n := len(k.l.nodes)
	t := &talk{wake: make(chan struct{}, 1)}
	ballots := t.few[:]
	if 2*n > len(ballots) {
		ballots = make([]ballot, 2*n)
	}
	t.acquire.names, t.acquire.wake = k.names, t.wake
	t.acquire.prepare(k.l, nil, ballots[:n:n])
	t.undo.names, t.undo.wake = k.names, t.wake
	t.undo.pace = faultPatient // a fault must not hide that the others released it
	t.undo.prepare(k.l, k, ballots[n:2*n])
	return t
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
