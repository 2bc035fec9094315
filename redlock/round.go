package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// round asks all nodes one question and takes one decision, as early as the votes
// allow: when a majority granted, or when none can any more. Nobody waits for the
// rest. A later answer changes no decision; whom it concerns reads it from the
// ballots (a grant that must be undone was queued behind its undo anyway).
type round struct {
	l        *Locker
	exchange *exchange // that it is a part of; may be nil
	observer observer  // may be nil
	names    []string
	req      wire.Request
	start    clock.Instant // read before the first send (docs/hazards.md H5)
	rule     decideRule
	wake     chan struct{} // gets one value at the decision; holds one

	alarm    alarm.Alarm   // the end of the vote
	deadline clock.Instant // … by the node timeout

	mu        sync.Mutex // guards all below; nobody is called under it
	ballots   []ballot
	keyStates [][]wire.KeyState // of rounds that look at keys, by node: what it holds
	tally     quorum.Tally
	refused   int         // nodes that said no, also too late for the vote
	pending   int         // nodes without a last answer
	decided   atomic.Bool // changes under mu
	decision  quorum.Decision
}

// decideRule is how much of the vote a decision waits for.
type decideRule uint8

const (
	earliest      decideRule = iota // won or lost as soon as the votes allow
	lossAfterAll                    // won as soon as they allow, lost only when all are in
	faultAfterAll                   // so too, but lost as soon as enough nodes refused
	afterAll                        // decided when all are in
)

// ballot is one node's part in a round.
type ballot struct {
	cmd     wire.Command
	voted   bool // counted in the tally
	replied bool // the command was answered, and
	late    bool // … after it had been counted as Unknown
	outcome wire.Outcome
	notSent bool
	undone  bool // see wire.Reply
	latency time.Duration
	err     error
	fence   uint64
}

// observer is told of a round's course, on a goroutine of a node's or of the
// alarms: it must not block.
type observer interface {
	// onReply turns an answer into a vote, for rounds that only read.
	onReply(r *round, rep wire.Reply) wire.Reply
	// onDecision is called once, when the decision has been taken.
	onDecision(r *round)
	// onComplete is called once, when every command has been answered: behind decided on the same
	// goroutine, but on another one perhaps while, or before, decided is called.
	onComplete(r *round)
}

// prepare makes the ballots; r.req must be filled.
func (r *round) prepare(l *Locker, owner observer, ballots []ballot) {
	r.l, r.observer, r.ballots = l, owner, ballots
	r.tally = quorum.NewTally(len(ballots))
	r.pending = len(ballots)
	r.req.NodeSet = l.nodeSet
	for i := range ballots {
		c := &ballots[i].cmd
		c.Request, c.Node, c.To = &r.req, i, r
	}
}

// sendAll submits the round to all nodes but those whose answer is known without asking.
// The start must have been read before.
func (r *round) sendAll(timeout time.Duration, known func(node int) (rep wire.Reply, ok bool)) {
	r.armTimeout(timeout)
	r.send(known, nil)
}

// submittedBy marks the commands with the kind of goroutine that is about to submit them.
func (r *round) submittedBy(by wire.Submitter) {
	for i := range r.ballots {
		r.ballots[i].cmd.Submitter = by
	}
}

// cancel gives up what still waits to be sent.
func (r *round) cancel() {
	for i := range r.ballots {
		r.ballots[i].cmd.Cancel()
	}
}

// armTimeout starts the time in which answers count.
func (r *round) armTimeout(timeout time.Duration) {
	r.deadline = r.start.Add(timeout)
	r.l.alarms.Set(&r.alarm, r.deadline, timeout, r)
}

// send hands the round's commands to the nodes, and those of another round right behind
// them, in the same flush where a node can do that.
func (r *round) send(known func(node int) (rep wire.Reply, ok bool), behind *round) {
	for i, n := range r.l.nodes {
		c := &r.ballots[i].cmd
		if known != nil {
			if rep, ok := known(i); ok {
				c.Answer(rep)
				c = nil
			}
		}
		switch {
		case behind == nil && c != nil:
			n.Submit(c)
		case behind != nil && c == nil:
			n.Submit(&behind.ballots[i].cmd)
		case behind != nil:
			submitBoth(n, c, &behind.ballots[i].cmd)
		}
	}
}

func submitBoth(n Node, first, second *wire.Command) {
	if p, ok := n.(interface {
		SubmitBoth(first, second *wire.Command)
	}); ok {
		p.SubmitBoth(first, second)
		return
	}
	n.Submit(first)
	n.Submit(second)
}

// Answer takes one node's answer.
func (r *round) Answer(c *wire.Command, rep wire.Reply) {
	if r.observer != nil && rep.Outcome == wire.Granted {
		rep = r.observer.onReply(r, rep)
	}
	took := r.latency(c.Node, rep)
	r.mu.Lock()
	b := &r.ballots[c.Node]
	late, behind := b.voted, b.voted || r.decided.Load()
	b.undone = rep.Undone
	b.replied, b.late, b.outcome, b.notSent, b.err, b.latency = true, late, rep.Outcome, rep.NotSent, rep.Err, took
	b.fence = rep.Fence
	if r.keyStates != nil {
		r.keyStates[c.Node] = rep.KeyStates
	}
	if rep.Outcome == wire.Refused {
		r.refused++
	}
	before := r.tiedLocked()
	news := r.countLocked(b)
	if !rep.Retrying {
		r.pending--
	}
	last := r.pending == 0 && !rep.Retrying
	hurry := !r.decided.Load() && !before && r.tiedLocked() && r.req.Op == wire.Acquire
	r.mu.Unlock()
	if r.l.dispatcher != nil {
		r.l.dispatcher.vote(r, c.Node, rep, took, behind)
	}
	if hurry {
		r.armTieTimeout()
	}
	r.notify(news, last)
	if r.exchange != nil && isFinal(c, rep) {
		r.exchange.unref(r.l)
	}
}

// Fire ends the vote, at the node timeout or soon after a tie: whoever has not
// answered is Unknown.
func (r *round) Fire(*alarm.Alarm) {
	r.pin()
	now := r.l.now()
	took, why := now.Sub(r.start), wire.ErrTimeout
	if now.Before(r.deadline) {
		why = errNotAwaited // see hurry
	}
	news := false
	r.mu.Lock()
	for i := range r.ballots {
		if b := &r.ballots[i]; !b.replied {
			b.outcome, b.err, b.latency = wire.Unknown, why, took
			if r.req.Op == wire.Acquire {
				r.l.trips[i].missed(took, !now.Before(r.deadline))
			}
			news = r.countLocked(b) || news
		}
	}
	r.mu.Unlock()
	r.notify(news, false)
}

// countLocked puts a ballot into the tally once, and reports whether that decides the
// round. Called under mu.
func (r *round) countLocked(b *ballot) (news bool) {
	if b.voted {
		return false
	}
	b.voted = true
	var d quorum.Decision
	switch b.outcome {
	case wire.Granted:
		d = r.tally.Grant()
	case wire.Refused:
		d = r.tally.Refuse()
	default:
		d = r.tally.Fail()
	}
	if r.decided.Load() || d == quorum.Open || r.needsMoreVotesLocked(d) {
		return false
	}
	r.decision = d
	r.decided.Store(true)
	return true
}

// needsMoreVotesLocked reports whether the round's pace wants more votes. Called under mu.
func (r *round) needsMoreVotesLocked(d quorum.Decision) bool {
	if r.tally.Outstanding() == 0 {
		return false
	}
	switch r.rule {
	case afterAll:
		return true
	case lossAfterAll:
		return d == quorum.Lost
	case faultAfterAll:
		return d == quorum.Lost && !r.tally.RefusedByQuorum()
	}
	return false
}

func (r *round) notify(decided, last bool) {
	if decided {
		if !r.l.alarms.Clear(&r.alarm) {
			r.pin() // it is about to ring
		}
		if r.observer != nil {
			r.observer.onDecision(r)
		}
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	if last && r.observer != nil {
		r.observer.onComplete(r)
	}
}

// wait returns when the round is decided, or with false when done is closed first.
// A nil done waits for the decision, which the node timeout bounds.
func (r *round) wait(done <-chan struct{}) bool {
	for !r.decided.Load() {
		if done == nil {
			<-r.wake // a select takes three times as long
			continue
		}
		select {
		case <-r.wake:
		case <-done:
			return r.decided.Load()
		}
	}
	return true
}

// run asks and waits, under the caller's context.
func (r *round) run(ctx context.Context, timeout time.Duration) error {
	if ctx.Err() != nil {
		return &waitError{op: r.req.Op.String(), names: r.names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	r.sendAll(timeout, nil)
	if !r.wait(ctx.Done()) {
		return &waitError{op: r.req.Op.String(), names: r.names, cause: context.Cause(ctx), last: r.asError(ErrNoQuorum)}
	}
	return nil
}
