package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// round sends one request to all nodes and makes one decision, as early as the votes allow: when a
// majority granted, or when none can grant any more. The caller does not wait for the other nodes.
// A later answer changes no decision, but is recorded in the ballots. A late grant that must be
// undone is already followed by its undo in the node's queue.
type round struct {
	l        *Locker
	exchange *exchange // that the round is part of; may be nil
	observer observer  // may be nil
	names    []string
	req      command.Request
	start    clock.Instant // read before the first send (docs/dev/hazards.md H5)
	rule     decideRule
	wake     chan struct{} // receives one value at the decision; of capacity 1

	alarm    alarm.Alarm   // fires at the end of the vote
	deadline clock.Instant // by the node timeout

	mu        sync.Mutex // guards the fields below; no callback runs under it
	ballots   []ballot
	keyStates [][]command.KeyState // for rounds that read keys: the state of the keys, by node
	tally     quorum.Tally
	refused   int         // nodes that refused, also after the vote
	pending   int         // nodes without a final answer
	decided   atomic.Bool // written under mu
	decision  quorum.Decision
}

// decideRule states how many votes a decision waits for.
type decideRule uint8

const (
	earliest      decideRule = iota // won or lost as early as possible
	lossAfterAll                    // won as early as possible, lost after all votes
	faultAfterAll                   // like lossAfterAll, but lost as soon as enough nodes refused
	afterAll                        // after all votes
)

// ballot is the state of a round on one node.
type ballot struct {
	cmd     command.Command
	voted   bool // counted in the tally
	replied bool // the command was answered
	late    bool // … after it had been counted as Unknown
	outcome command.Outcome
	notSent bool
	undone  bool // see command.Reply
	latency time.Duration
	err     error
	fence   int64
}

// observer receives the events of a round. Its methods are called on goroutines of the nodes or of
// the alarms, so they must not block.
type observer interface {
	// onReply turns an answer into a vote, for rounds that read.
	onReply(r *round, rep command.Reply) command.Reply
	// onDecision is called once, after the decision.
	onDecision(r *round)
	// onComplete is called once, when every command has been answered. On the goroutine that calls
	// onDecision it is called after that. On another goroutine it may run before onDecision or
	// concurrently.
	onComplete(r *round)
}

// prepare initializes the ballots and the commands. r.req is filled in before the round is sent.
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

// sendAll submits the round to all nodes except those whose answer is known. r.start must be set.
func (r *round) sendAll(timeout time.Duration, known func(node int) (rep command.Reply, ok bool)) {
	r.armTimeout(timeout)
	r.send(known, nil)
}

// submittedBy sets on all commands the kind of goroutine that is about to submit them.
func (r *round) submittedBy(by command.Submitter) {
	for i := range r.ballots {
		r.ballots[i].cmd.Submitter = by
	}
}

// cancel cancels the commands that are still unsent.
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

// send submits the round's commands. After each it submits the command of the round behind, if that
// is not nil, in the same flush if the node supports that.
func (r *round) send(known func(node int) (rep command.Reply, ok bool), behind *round) {
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

func submitBoth(n Node, first, second *command.Command) {
	if p, ok := n.(interface {
		SubmitBoth(first, second *command.Command)
	}); ok {
		p.SubmitBoth(first, second)
		return
	}
	n.Submit(first)
	n.Submit(second)
}

// Answer records one node's answer.
func (r *round) Answer(c *command.Command, rep command.Reply) {
	if r.observer != nil && rep.Outcome == command.Granted {
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
	if rep.Outcome == command.Refused {
		r.refused++
	}
	before := r.tiedLocked()
	news := r.countLocked(b)
	if !rep.Retrying {
		r.pending--
	}
	last := r.pending == 0 && !rep.Retrying
	tied := !r.decided.Load() && !before && r.tiedLocked() && r.req.Op == command.Acquire
	r.mu.Unlock()
	if r.l.dispatcher != nil {
		r.l.dispatcher.vote(r, c.Node, rep, took, behind)
	}
	if tied {
		r.armTieTimeout()
	}
	r.notify(news, last)
	if r.exchange != nil && isFinal(c, rep) {
		r.exchange.unref(r.l)
	}
}

// Fire ends the vote, at the node timeout or soon after a tie. Nodes that have not answered count
// as Unknown.
func (r *round) Fire(*alarm.Alarm) {
	r.pin()
	now := r.l.now()
	took, why := now.Sub(r.start), command.ErrTimeout
	if now.Before(r.deadline) {
		why = errNotAwaited // a tie: see armTieTimeout
	}
	news := false
	r.mu.Lock()
	for i := range r.ballots {
		if b := &r.ballots[i]; !b.replied {
			b.outcome, b.err, b.latency = command.Unknown, why, took
			if r.req.Op == command.Acquire {
				r.l.trips[i].missed(took, !now.Before(r.deadline))
			}
			news = r.countLocked(b) || news
		}
	}
	r.mu.Unlock()
	r.notify(news, false)
}

// countLocked counts a ballot once in the tally, and reports whether that decides the round.
func (r *round) countLocked(b *ballot) (news bool) {
	if b.voted {
		return false
	}
	b.voted = true
	var d quorum.Decision
	switch b.outcome {
	case command.Granted:
		d = r.tally.Grant()
	case command.Refused:
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

// needsMoreVotesLocked reports whether the round's rule requires more votes.
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
			r.pin() // it is about to fire
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

// wait returns true when the round is decided, or false if done is closed first. With a nil done it
// waits for the decision, which the node timeout bounds.
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

// run sends the round and waits for its decision, or until ctx ends.
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
