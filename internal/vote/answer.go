package vote

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// ErrNotAwaited is the error in the ballot of a node that had not answered at the decision.
var ErrNotAwaited = errors.New("decided before this node answered")

// receiver is the nodes' view of a round.
type receiver Round

// Answer counts one node's answer. If that decides the round, it reports the decision.
func (o *receiver) Answer(c *command.Command, rep command.Reply) {
	r := (*Round)(o)
	g, events, node := r.group, r.events, int(c.Node)
	g.noteAnswer(r, node, rep)
	if events.OnReply != nil {
		rep = events.OnReply(r, node, rep)
	}
	took := r.measure(node, rep)
	r.mu.Lock()
	before := r.ballots.tied()
	late := r.ballots.record(node, rep, took)
	news := r.decideLocked()
	tied := !before && r.ballots.tied() && r.Request.Op == command.Acquire
	r.mu.Unlock()
	if g.OnAnswer != nil {
		g.OnAnswer(r, node, rep, took, late)
	}
	if tied {
		r.armTieTimeout()
	}
	if news {
		r.reportDecision()
	}
	if !rep.Retrying {
		r.completePart()
	}
}

// voteTimer is the timer queue's view of a round.
type voteTimer Round

// Fire ends the vote, at the node timeout or soon after a tie. Nodes that have not answered count as
// Unknown.
func (t *voteTimer) Fire(*timer.Timer) {
	r := (*Round)(t)
	now := r.group.Clock.Now()
	took, why := now.Sub(r.Start), command.ErrTimeout
	timedOut := !now.Before(r.deadline)
	if !timedOut {
		why = ErrNotAwaited // a tie: see armTieTimeout
	}
	r.mu.Lock()
	silent := r.ballots.giveUp(why, took)
	news := r.decideLocked()
	r.mu.Unlock()
	for i := range r.group.trips {
		if silent.Has(i) && r.Request.Op == command.Acquire && (timedOut || took >= r.group.Patience(i)) {
			r.group.trips[i].Store(0)
		}
	}
	if news {
		r.reportDecision()
	}
}

// decideLocked reports whether the ballots decide the round now. If so, it publishes the decision.
func (r *Round) decideLocked() (news bool) {
	if news = r.ballots.decide(r.Rule, r.Enough); news {
		r.decision.Store(uint32(r.ballots.decision))
	}
	return news
}

// reportDecision ends the vote's timer, and tells the owner and the goroutine that waits.
func (r *Round) reportDecision() {
	if r.Timer == &r.ownTimer || !r.Won() {
		r.group.Timers.Clear(r.Timer)
	}
	if r.events.OnDecision != nil {
		r.events.OnDecision(r)
	}
	r.completePart()
	r.wake.Set()
}

// completePart records one of the things without which the round is not complete.
func (r *Round) completePart() {
	if r.pending.Add(-1) == 0 && r.events.OnComplete != nil {
		r.events.OnComplete(r)
	}
}

// armTieTimeout ends an acquire's vote soon after a tie. If two contenders have a vote each, neither
// may keep it for the whole node timeout because the deciding node is frozen (docs/dev/rules.md
// rule 22). Losing is always safe.
//
// A vote that is not patient does not wait for a node that is known to be more distant than that: the contenders would keep their
// votes, and no other one could win meanwhile. A patient one gives it time according to its own measured round trip: a key that stays
// would otherwise keep the name from all (docs/dev/adr/0014-votes-are-split-held-or-missing.md).
func (r *Round) armTieTimeout() {
	now := r.group.Clock.Now()
	took := now.Sub(r.Start)
	d, patience, distant := TieTimeout(took), time.Duration(0), true
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.ballots.ByNode {
		if !r.ballots.ByNode[i].Counted {
			patience = max(patience, r.group.Patience(i)-took)
			distant = distant && r.group.trip(i)-took > d
		}
	}
	switch {
	case r.Patient:
		d = max(d, patience)
	case distant:
		d = 0
	}
	// Another answer may have decided the round meanwhile.
	if at := now.Add(d); at.Before(r.deadline) && !r.Decided() {
		r.group.Timers.Set(r.Timer, at, (*voteTimer)(r))
	}
}

// measure returns the time from the round's start to an answer. It is 0 for a grant that is not
// measured: reading the clock for every grant would cost too much.
func (r *Round) measure(node int, rep command.Reply) time.Duration {
	voted := r.Request.Op == command.Acquire && (rep.Outcome == command.Granted || rep.Outcome == command.Refused)
	trip := &r.group.trips[node]
	if due := voted && trip.Load() == 0; !due && rep.Outcome == command.Granted && r.group.OnAnswer == nil {
		return 0
	}
	now := r.group.Clock.Now()
	took := now.Sub(r.Start)
	if voted && now.Before(r.deadline) { // otherwise the node was frozen: that is no round trip
		trip.Store(int64(took))
	}
	return took
}
