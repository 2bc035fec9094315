package redlock

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// maxPollPause bounds the time between the polls of a subscribed waiter, because announcements may
// be lost (docs/dev/hazards.md H82).
const maxPollPause = time.Second

// Clients of other libraries do not announce releases. Waiters then poll as often as redsync does,
// so that both kinds of clients get the lock equally often.
const (
	minForeignPause = 50 * time.Millisecond
	maxForeignPause = 250 * time.Millisecond
)

// keyPoll queries every node for the existence and the TTL of the names' keys. It costs a node one
// command for each name. It is never a vote and changes no validity. It only shows whether an
// attempt can succeed.
type keyPoll struct {
	waiter *waiter
	failed []bool            // by node: it also failed in the last attempt
	reqs   []command.Request // by name
	cmds   []command.Command // by name and node

	// Guarded by waitTable.mu:
	blocked    []clock.Instant // by node: until when it cannot grant; 0: not blocked
	unanswered []int           // by node: number of names
}

// whileHeld waits while the names are held and releases are announced. It returns after an
// announcement or a handoff, when the keys have expired, or when a poll finds that an attempt can
// succeed. With atOnce the first poll is immediate, because a release may have been missed.
func (v *waiter) whileHeld(seen contention, atOnce bool) (given *Lock, woken wakeReason, err error) {
	expiry := noDeadline
	if seen.freeIn >= 0 {
		expiry = v.l.now().Add(seen.freeIn + expiryMargin)
	}
	pause := v.maxPause()*3/4 + rand.N(v.maxPause()/4) // spreads waiters that were woken together
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
		v.rearm() // all nodes may answer before the waiter parks
		p := v.startPoll()
		given, woken, err = v.parkUntil(expiry, v.l.readTimeout(), byAnswer)
		if given != nil || err != nil || woken > bySubscription {
			return given, woken, err
		}
		until, free := v.endPoll(p)
		if free || until == noDeadline && expiry != noDeadline { // may not be a lock
			return nil, byPoll, nil
		}
		expiry = until
		atOnce, pause = false, v.maxPause()*31/32
		v.l.traceWaiting(v.req, v.req.failures, v.last)
	}
}

// maxPause returns the longest time between two polls of a subscribed waiter.
func (v *waiter) maxPause() time.Duration { return max(maxPollPause, v.l.set.maxBackoff) }

// parkUntil parks for d, with the reason timed, or until the keys expire if that is sooner. If the
// holder keeps extending them it waits for the poll instead.
func (v *waiter) parkUntil(expiry clock.Instant, d time.Duration, timed wakeReason) (*Lock, wakeReason, error) {
	if left := expiry.Sub(v.l.now()); left < d && !v.renewed {
		d, timed = max(left, 1), byExpiry
	}
	return v.park(d, timed)
}

// rearm discards the last wake-up, unless it still calls for an attempt.
func (v *waiter) rearm() {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if v.woken <= bySubscription {
		v.dropWakeupLocked()
	}
}

// listens reports whether the subscriptions are confirmed on a majority of the nodes.
func (v *waiter) listens() bool {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return v.confirmedNodesLocked() >= quorum.Majority(len(v.l.nodes))
}

// startPoll submits a poll to all nodes.
func (v *waiter) startPoll() *keyPoll {
	n, keys, now := len(v.l.nodes), v.l.keys(v.req.names), v.l.now()
	p := &keyPoll{
		waiter: v, failed: make([]bool, n), reqs: make([]command.Request, len(keys)), cmds: make([]command.Command, n*len(keys)),
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
		r, t := &p.reqs[k], &command.LockArgs{}
		t.Set(keys[k:k+1], "")
		command.NewPoll(r, t)
		r.NodeSet, r.Clock, r.NotAfter = v.l.nodeSet, v.l.set.clock, now.Add(v.l.readTimeout())
		for i, node := range v.l.nodes {
			c := &p.cmds[k*n+i]
			c.Request, c.Node, c.To = r, i, p
			node.Submit(c)
		}
	}
	return p
}

// Answer records a node's answer about one name. A node that does not vote counts as blocked only
// if it also failed in the last attempt. Otherwise an attempt must find out and report the failure.
func (p *keyPoll) Answer(c *command.Command, rep command.Reply) {
	v := p.waiter
	now, left := v.l.now(), time.Duration(0)
	switch {
	case rep.Outcome == command.Refused:
		left = rep.Left + expiryMargin
		if rep.Left < 0 {
			left = noExpiry
		}
	case rep.Outcome == command.Failed && p.failed[c.Node]:
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

// toldLocked reports whether all nodes have answered, or enough of them that the others cannot
// block an attempt. The caller holds waitTable.mu.
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

// spare returns how many nodes are not needed for a quorum.
func (p *keyPoll) spare() int { return len(p.blocked) - quorum.Majority(len(p.blocked)) }

// endPoll reports whether an attempt can succeed. If not, it returns until when none can without a
// release, and updates the remaining times in the error. A node that did not answer blocks nothing.
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

// refresh updates the remaining times of the keys in v.last. It copies the error, because a hook
// may be reading it.
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

// noteVain records a failed attempt. If an announcement or an expiry caused it and the same tokens
// still hold the names, the attempt was fruitless. Announcements then wake the waiter only after a
// pause, which doubles up to the time between polls. Expiries no longer wake it.
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
	if v.woken == byMessage { // by an announcement during the attempt
		v.dropWakeupLocked()
		v.l.alarms.Set(&v.alarm, v.quiet, d, v)
	}
}

// maxDoublings bounds how often the pause after fruitless announcements doubles.
const maxDoublings = 16
