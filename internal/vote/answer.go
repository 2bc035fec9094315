package vote

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
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
	b := &r.ballots[node]
	counted, late := b.Counted, b.Counted || r.Decided()
	b.Undone = rep.Undone
	b.Replied, b.AnsweredLate, b.Outcome, b.NotSent, b.Err, b.Latency = true, counted, rep.Outcome, rep.NotSent, rep.Err, took
	b.Fence = rep.Fence
	if r.keyStates != nil {
		r.keyStates[node] = rep.KeyStates
	}
	before := r.tiedLocked()
	news := r.countLocked(b)
	tied := !r.Decided() && !before && r.tiedLocked() && r.Request.Op == command.Acquire
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
	news := false
	r.mu.Lock()
	for i := range r.ballots {
		if b := &r.ballots[i]; !b.Replied {
			b.Outcome, b.Err, b.Latency = command.Unknown, why, took
			if r.Request.Op == command.Acquire && (timedOut || took >= r.group.Patience(i)) {
				r.group.trips[i].Store(0) // it is silent
			}
			news = r.countLocked(b) || news
		}
	}
	r.mu.Unlock()
	if news {
		r.reportDecision()
	}
}

// countLocked counts a ballot once in the tally, and reports whether that decides the round.
func (r *Round) countLocked(b *Ballot) (news bool) {
	if b.Counted {
		return false
	}
	b.Counted = true
	var d quorum.Decision
	switch b.Outcome {
	case command.Granted:
		d = r.tally.Grant()
	case command.Refused:
		d = r.tally.Refuse()
	default:
		d = r.tally.Fail()
	}
	switch {
	case r.Decided():
		return false
	case r.Enough != nil && r.Enough(r.resultsLocked()):
		d = quorum.Lost // no owner of such a round asks
	case d == quorum.Open || r.needsMoreVotesLocked(d):
		return false
	}
	r.decision.Store(uint32(d))
	return true
}

// needsMoreVotesLocked reports whether the round's rule requires more votes.
func (r *Round) needsMoreVotesLocked(d quorum.Decision) bool {
	if r.tally.Outstanding() == 0 {
		return false
	}
	switch r.Rule {
	case AfterAll:
		return true
	case LossAfterAll:
		return d == quorum.Lost
	case FaultAfterAll:
		return d == quorum.Lost && !r.tally.RefusedByQuorum()
	}
	return false
}

// reportDecision ends the vote's timer, and tells the owner and the goroutine that waits.
func (r *Round) reportDecision() {
	r.group.Timers.Clear(&r.timer)
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
