package redlock

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// maxPollPause is how long a waiter that hears of releases goes without a poll at most:
// announcements are hints, and may be lost (docs/hazards.md H82).
const maxPollPause = time.Second

// Clients of other libraries announce no releases. Waiters poll them as often as redsync's
// users do, so that a fleet of both stays fair.
const (
	minForeignPause = 50 * time.Millisecond
	maxForeignPause = 250 * time.Millisecond
)

// keyPoll asks every node whether the names' keys exist, and for how long. It costs a node one
// command for each name. It is never a vote, and moves no validity: it only tells whether an
// attempt can succeed.
type keyPoll struct {
	waiter *waiter
	failed []bool         // by node: it failed in the last attempt as well
	reqs   []wire.Request // by name
	cmds   []wire.Command // by name and node

	// Guarded by waiters.mu:
	blocked    []clock.Instant // by node: until when it cannot grant; 0 where nothing blocks
	unanswered []int           // by node: names
}

// whileHeld waits while somebody holds the names and their releases are heard of: until one
// is announced or handed over, until the keys expire, or until a poll finds that an attempt
// can succeed. The first poll comes at once where a release may have been missed.
func (v *waiter) whileHeld(seen contention, atOnce bool) (given *Lock, woken wakeReason, err error) {
	expiry := noDeadline
	if seen.freeIn >= 0 {
		expiry = v.l.now().Add(seen.freeIn + expiryMargin)
	}
	pause := v.maxPause()*3/4 + rand.N(v.maxPause()/4) // those who were woken together part ways
	for {
		if !atOnce {
			if seen.foreign {
				pause = max(v.l.set.minBackoff, minForeignPause+rand.N(maxForeignPause-minForeignPause))
			}
			v.rearm()
			given, woken, err = v.parkUntil(expiry, pause, byPoll)
			if given != nil || err != nil || woken > bySubscription || woken == byExpiry && !v.renewed {
				return given, woken, err
			}
		}
		if !v.listens() {
			return nil, byPoll, nil
		}
		v.rearm() // before the poll: all nodes may answer before its rest begins
		p := v.startPoll()
		given, woken, err = v.parkUntil(expiry, v.l.readTimeout(), byAnswer)
		if given != nil || err != nil || woken > bySubscription {
			return given, woken, err
		}
		until, free := v.endPoll(p)
		if free || until == noDeadline && expiry != noDeadline { // what never expires may be no lock
			return nil, byPoll, nil
		}
		expiry = until
		atOnce, pause = false, v.maxPause()*31/32
		v.l.traceWaiting(v.req, v.req.failures, v.last)
	}
}

// maxPause is how long a waiter that hears of releases goes without a poll at most.
func (v *waiter) maxPause() time.Duration { return max(maxPollPause, v.l.set.maxBackoff) }

// parkUntil rests for d, for the reason timed, or until the keys expire if that is sooner.
// Where the holder extends them again and again, polls alone tell.
func (v *waiter) parkUntil(expiry clock.Instant, d time.Duration, timed wakeReason) (*Lock, wakeReason, error) {
	if left := expiry.Sub(v.l.now()); left < d && !v.renewed {
		d, timed = max(left, 1), byExpiry
	}
	return v.park(d, timed)
}

// rearm forgets why it was woken last, unless that still calls for an attempt.
func (v *waiter) rearm() {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if v.woken <= bySubscription {
		v.dropWakeupLocked()
	}
}

// listens reports whether it hears of releases on so many nodes that none is missed by all.
func (v *waiter) listens() bool {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return v.confirmedNodesLocked() >= quorum.Majority(len(v.l.nodes))
}

// startPoll asks the nodes.
func (v *waiter) startPoll() *keyPoll {
	n, keys, now := len(v.l.nodes), v.l.keys(v.req.names), v.l.now()
	p := &keyPoll{
		waiter: v, failed: make([]bool, n), reqs: make([]wire.Request, len(keys)), cmds: make([]wire.Command, n*len(keys)),
		blocked: make([]clock.Instant, n), unanswered: make([]int, n),
	}
	var attempt *QuorumError
	if errors.As(v.last, &attempt) {
		for i := range attempt.Votes {
			p.failed[i] = attempt.Votes[i].Outcome == OutcomeFailed
		}
	}
	ws := v.l.waitTable
	ws.mu.Lock()
	v.poll = p
	for i := range p.unanswered {
		p.unanswered[i] = len(keys)
	}
	ws.mu.Unlock()
	for k := range keys {
		r, t := &p.reqs[k], &wire.LockArgs{}
		t.Set(keys[k:k+1], "")
		wire.NewPoll(r, t)
		r.NodeSet, r.Clock, r.NotAfter = v.l.nodeSet, v.l.set.clock, now.Add(v.l.readTimeout())
		for i, node := range v.l.nodes {
			c := &p.cmds[k*n+i]
			c.Request, c.Node, c.To = r, i, p
			node.Submit(c)
		}
	}
	return p
}

// Answer takes a node's answer about one name. A node that does not vote blocks only where
// the attempt has found that as well: what is new is for an attempt to find out and report.
func (p *keyPoll) Answer(c *wire.Command, rep wire.Reply) {
	v := p.waiter
	now, left := v.l.now(), time.Duration(0)
	switch {
	case rep.Outcome == wire.Refused:
		left = rep.Left + expiryMargin
		if rep.Left < 0 {
			left = noExpiry
		}
	case rep.Outcome == wire.Failed && p.failed[c.Node]:
		left = quarantineLeft(rep.Err)
	}
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case left == noExpiry:
		p.blocked[c.Node] = noDeadline
	case left > 0:
		p.blocked[c.Node] = max(p.blocked[c.Node], now.Add(left))
	}
	p.unanswered[c.Node]--
	if v.poll == p && p.toldLocked() {
		v.wakeForLocked(byAnswer)
	}
}

// toldLocked reports whether all nodes have answered, or so many that the others can't block an
// attempt any more. Called under waiters.mu.
func (p *keyPoll) toldLocked() bool {
	open, blocking := 0, 0
	for i, until := range p.blocked {
		switch {
		case until != 0:
			blocking++
		case p.unanswered[i] > 0:
			open++
		}
	}
	return blocking+open <= p.spare() || !slices.ContainsFunc(p.unanswered, func(n int) bool { return n > 0 })
}

// spare is how many nodes a quorum can do without.
func (p *keyPoll) spare() int { return len(p.blocked) - quorum.Majority(len(p.blocked)) }

// endPoll reports whether an attempt can succeed, and if not, until when surely none can
// without a release. A node that did not answer blocks nothing. Otherwise it notes in the
// reason for waiting what the keys have left.
func (v *waiter) endPoll(p *keyPoll) (expiry clock.Instant, free bool) {
	ws := v.l.waitTable
	ws.mu.Lock()
	blocked := slices.Clone(p.blocked)
	ws.mu.Unlock()
	v.refresh(blocked)
	blocked = slices.DeleteFunc(blocked, func(until clock.Instant) bool { return until == 0 })
	over := len(blocked) - p.spare()
	if over <= 0 {
		return 0, true
	}
	slices.Sort(blocked)
	return blocked[over-1], false
}

// refresh updates what the keys have left in the reason for waiting. The error given stays
// as it is: a hook may be reading it.
func (v *waiter) refresh(until []clock.Instant) {
	var attempt *QuorumError
	if !errors.As(v.last, &attempt) {
		return
	}
	now := v.l.now()
	fresh := *attempt
	fresh.Votes = slices.Clone(attempt.Votes)
	for i := range fresh.Votes {
		var held *HeldError
		switch vote := &fresh.Votes[i]; {
		case until[i] == 0 || !errors.As(vote.Err, &held):
		case until[i] == noDeadline:
			vote.Err = &HeldError{Owner: held.Owner, Remaining: -time.Millisecond}
		default:
			vote.Err = &HeldError{Owner: held.Owner, Remaining: max(0, until[i].Sub(now)-expiryMargin)}
		}
	}
	v.last = &fresh
}

// noteVain notes that an attempt failed. If an announcement or an expiry had led to it and
// the same tokens still hold the names, that was in vain. Announcements then wake it only
// after a pause, which doubles up to the time between polls; expiries do so no more.
func (v *waiter) noteVain(seen contention) {
	switch {
	case seen.tokens != v.tokens:
		v.tokens, v.vainPolls, v.renewed = seen.tokens, 0, false
	case v.reason == byMessage:
		v.vainPolls++
	case v.reason == byExpiry:
		v.renewed = true
	}
	if v.vainPolls == 0 {
		return
	}
	d := min(v.l.set.minBackoff<<min(v.vainPolls-1, maxDoublings), v.maxPause())
	d = d*3/4 + rand.N(d/4+1)
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	v.quiet = v.l.now().Add(d)
	if v.woken == byMessage { // by what came during the attempt
		v.dropWakeupLocked()
		v.l.alarms.Set(&v.alarm, v.quiet, d, v)
	}
}

// maxDoublings bounds how often the pause after announcements in vain doubles.
const maxDoublings = 16
