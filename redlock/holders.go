package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// holderQuery queries nodes for the holders of the names, after a refused attempt. verdict.Query decides which, and
// when their answers suffice.
type holderQuery struct {
	verdict.Query
	round   *vote.Round
	votes   []Vote           // of the attempt
	answers []verdict.Answer // of the query
}

// describeHolders queries the nodes for the reason of a failed attempt. It returns the attempt's
// error with that reason and with the holder that each node reported. After a refusal it takes one
// round trip, otherwise none.
//
// It makes no query if the waiter may assume the reason. Otherwise it queries the nodes that refused.
// It also queries nodes that had not answered at the decision, if their answers can change the reason.
// If they decide between a fault and a split vote, that may take the node timeout. A query that is cut short by
// the context or by Close changes no reason.
func (a *call) describeHolders(ctx context.Context, lk *Lock, err error) (verdict.Contention, error) {
	var first *QuorumError
	if !errors.As(err, &first) || !errors.Is(first.Reason, ErrHeld) {
		return verdict.Contention{}, err
	}
	if ctx.Err() != nil {
		return verdict.Contention{Why: verdict.Cut}, err
	}
	if refused, _ := first.against(); refused >= first.Need && a.waiter.MayAssumeHeld() {
		if verdict.Count(first.counted(), verdict.Granted) == 0 { // no split vote
			return verdict.Contention{Why: verdict.Assumed, Stuck: true, FreeIn: -1}, err
		}
	}
	q, cut := a.queryHolders(first), false
	select {
	case <-q.round.Woken():
	case <-ctx.Done():
		cut = true
	case <-a.l.registry.closing: // the result would not be used
		cut = true
	}
	q.round.ClearTimer()
	e := votesError(lk.keys.acquire, ErrHeld) // with the votes that arrived meanwhile
	var seen verdict.Contention
	q.round.View(func(s *vote.Ballots) {
		q.fillIn(s, e.Votes)
		seen = a.sightings.Explain(a.l.now(), a.l.set.readTimeout(), q.failure(s, e, len(a.names)))
	})
	switch {
	case cut:
		return verdict.Contention{Why: verdict.Cut}, e
	case seen.Why == verdict.Fault:
		e.Reason = e.faultReason()
	case seen.Why == verdict.Split:
		e.Split = true
	case e.blockedBy(ErrForeignKey):
		e.Reason = ErrForeignKey
	}
	a.markOwn(e)
	return seen, e
}

// failure returns what is known after the query. e has the votes of the attempt and the results of the query.
func (q *holderQuery) failure(s *vote.Ballots, e *QuorumError, names int) verdict.Failure {
	f := verdict.Failure{Names: names, Need: s.Need(), Foreign: e.blockedBy(ErrForeignKey), Keys: s.KeyStates, Outages: make([]verdict.Outage, len(q.votes))}
	f.Refused, f.Failed = e.against()
	for i := range q.votes {
		f.Outages[i] = verdict.Outage{Failed: q.votes[i].Outcome == OutcomeFailed, Left: quarantineLeft(q.votes[i].Err)}
	}
	return f
}

// markOwn marks the holder that is a lock of this Locker: a caller that locks twice must not look for
// another client.
func (a *call) markOwn(e *QuorumError) {
	lk := a.holderHere()
	if lk == nil {
		return
	}
	id := lk.ID()
	for _, v := range e.Votes {
		var held *HeldError
		if errors.As(v.Err, &held) && held.ID == id {
			held.here = true
		}
	}
}

// holderHere returns the lock of this Locker that holds one of the names, or nil.
func (a *call) holderHere() *Lock {
	if h := a.l.waiting.Holder(a.names); h != nil {
		return h.Owner.(*Lock)
	}
	return nil
}

// fillIn adds the results of the query to the votes of the attempt.
func (q *holderQuery) fillIn(s *vote.Ballots, votes []Vote) {
	for i := range s.ByNode {
		b, v, why := &s.ByNode[i], &votes[i], asHeldError(s.KeyStates[i])
		if q.votes[i].notAwaited() && errors.Is(v.Err, command.ErrGivenUp) {
			*v = q.votes[i] // the undo cancelled the acquire: the node did not fail
		}
		notAwaited := v.notAwaited()
		switch {
		case why != nil && (v.Outcome == OutcomeRefused || notAwaited || errors.Is(why, ErrForeignKey)):
			v.Err = why
			if notAwaited {
				v.Outcome = OutcomeRefused
			}
		case notAwaited && b.Failed():
			v.Outcome, v.Err, v.Took = Outcome(b.Last), b.Err, b.Latency
		}
	}
}

// queryHolders begins a query. Its round ends when the answers suffice.
func (a *call) queryHolders(lost *QuorumError) *holderQuery {
	q := &holderQuery{
		Query: verdict.NewQuery(lost.counted(), lost.Need, len(a.names)),
		votes: lost.Votes, answers: make([]verdict.Answer, len(lost.Votes)),
	}
	// The answers count: a node that does not vote must not be taken for one that would grant the next attempt.
	args := &command.LockArgs{UnderGuard: a.l.set.guarded}
	args.Set(a.l.set.keys(a.names), "")
	q.round = a.l.readRound(&noEvents, nil, a.names, args)
	timeout := a.l.set.timeout(a.ttl)
	if q.Brief() { // as after a tie: see package vote, group.go
		timeout = min(timeout, a.notAwaitedTimeout(q.votes, lost.refusalsTook()))
	}
	q.round.Rule, q.round.Enough = vote.AfterAll, q.enough
	q.round.Arm(timeout)
	q.round.Send(func(node int) (command.Reply, bool) {
		return command.Reply{Outcome: command.Refused, NotSent: true}, !q.Asks(node)
	}).Settle()
	return q
}

// notAwaitedTimeout returns how long to wait for nodes that had not answered, as after a tie.
func (a *call) notAwaitedTimeout(votes []Vote, took time.Duration) time.Duration {
	d := vote.TieTimeout(took)
	for i := range votes {
		if a.patient && votes[i].notAwaited() {
			d = max(d, a.l.group.Patience(i))
		}
	}
	return d
}

// enough reports whether the answers so far suffice.
func (q *holderQuery) enough(s *vote.Ballots) bool {
	for i := range s.ByNode {
		b := &s.ByNode[i]
		q.answers[i] = verdict.Answer{Known: b.Counted, Failed: b.Failed(), Keys: s.KeyStates[i]}
	}
	return q.Suffice(q.answers)
}
