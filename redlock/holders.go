package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// contention describes why a contender did not get a name.
type contention struct {
	// It is no split vote: one token is on a quorum, or no contender can have a quorum.
	held bool
	// Time until that can be over without a release. Negative: unknown.
	freeIn time.Duration

	blocked time.Duration // how long the same keys have left no quorum
	took    time.Duration // duration of the attempt until its decision
	tokens  string        // that are on a quorum, for all names
	// A token is not from this library, so its release is not announced.
	foreign bool
	// The end of the context, or Close, cut the query short. No other field is set.
	cut bool
}

// holderQuery queries nodes for the holders of the names, after a refused attempt. It waits for the
// nodes that refused, because they answered recently. It waits for others only while they can show
// a token on a quorum: a frozen node must not block it if the others are conclusive.
type holderQuery struct {
	*round
	votes []Vote // of the attempt
}

// describeHolders queries the nodes for the reason of a failed attempt. It returns the attempt's
// error with that reason and with the holder that each node reported. After a refusal it takes one
// round trip, otherwise none.
//
// It queries the nodes that refused. It also queries nodes that had not answered at the decision,
// if their answers can change the reason. If they decide between a fault and a split vote, that may
// take the node timeout. A query that is cut short by the context or by Close changes no reason.
func (l *Locker) describeHolders(ctx context.Context, w *request, attempt *Lock, err error) (contention, error) {
	var first *QuorumError
	if !errors.As(err, &first) || !errors.Is(first.Reason, ErrHeld) {
		return contention{}, err
	}
	if ctx.Err() != nil {
		return contention{cut: true}, err
	}
	k, cut := l.queryHolders(w, first), false
	select {
	case <-k.wake:
	case <-ctx.Done():
		cut = true
	case <-l.closing: // the result would not be used
		cut = true
	}
	l.alarms.Clear(&k.alarm)
	e := attempt.exchange.acquire.asError(ErrHeld) // with the votes that arrived meanwhile
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fillInLocked(e.Votes)
	if cut {
		return contention{cut: true}, e
	}
	seen := k.contentionLocked()
	held := seen.held
	if !held {
		seen.freeIn, seen.held, seen.blocked = w.waiter.blockedForLocked(k)
	}
	stands := held || seen.blocked > l.readTimeout() || e.foreign()
	switch refused, failed := e.against(); quorum.LossOf(len(e.Votes), refused, failed, stands) {
	case quorum.NoQuorum:
		e.Reason = e.faultReason()
	case quorum.Split:
		e.Split = true
	}
	return seen, e
}

// fillInLocked adds the results of the query to the votes of the attempt.
func (q *holderQuery) fillInLocked(votes []Vote) {
	for i := range q.ballots {
		b, v, why := &q.ballots[i], &votes[i], asHeldError(q.keyStates[i])
		if q.votes[i].notAwaited() && errors.Is(v.Err, command.ErrGivenUp) {
			*v = q.votes[i] // the undo cancelled the acquire: the node did not fail
		}
		unheard := v.notAwaited()
		switch {
		case why != nil && (v.Outcome == OutcomeRefused || unheard || errors.Is(why, ErrForeignKey)):
			v.Err = why
			if unheard {
				v.Outcome = OutcomeRefused
			}
		case unheard && b.failed():
			v.Outcome, v.Err, v.Took = Outcome(b.outcome), b.err, b.latency
		}
	}
}

// failed reports whether a node was queried and failed, or did not answer in time.
func (b *ballot) failed() bool {
	return b.voted && b.outcome != command.Granted && b.outcome != command.Refused
}

// queryHolders begins a query. Its wake channel gets a value when the result is conclusive.
func (l *Locker) queryHolders(w *request, lost *QuorumError) *holderQuery {
	k := &holderQuery{round: l.inspectRound(nil, w.names), votes: lost.Votes}
	for i := range k.ballots {
		k.ballots[i].cmd.To = k
	}
	unheard := 0
	for i := range k.votes {
		if k.votes[i].notAwaited() {
			unheard++
		}
	}
	refused, failed := lost.against()
	mayFail := failed+unheard > len(k.votes)-lost.Need
	more := mayFail || refused < lost.Need && refused+unheard >= lost.Need
	timeout := l.set.timeout(w.ttl)
	if took, granted := lost.hadVote(); more && granted && !mayFail {
		// It may be a split vote: see armTieTimeout.
		timeout = min(timeout, l.notAwaitedTimeout(k.votes, took))
	}
	k.rule, k.start = afterAll, l.now()
	k.sendAll(timeout, func(node int) (command.Reply, bool) {
		v := &k.votes[node]
		return command.Reply{Outcome: command.Refused, NotSent: true}, v.Outcome != OutcomeRefused && (!more || !v.notAwaited())
	})
	return k
}

// notAwaitedTimeout returns how long to wait for nodes that had not answered, as after a tie.
func (l *Locker) notAwaitedTimeout(votes []Vote, took time.Duration) time.Duration {
	d := tieTimeout(took)
	for i := range votes {
		if votes[i].notAwaited() {
			d = max(d, l.trips[i].patience())
		}
	}
	return d
}

// Answer records one node's answer.
func (q *holderQuery) Answer(c *command.Command, rep command.Reply) {
	q.round.Answer(c, rep)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.decided.Load() || !q.conclusiveLocked() {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// conclusiveLocked reports whether a token is on a quorum, or no pending answer can show one.
func (q *holderQuery) conclusiveLocked() bool {
	open, most := 0, 0
	for i := range q.ballots {
		if q.ballots[i].voted {
			continue
		}
		if open++; q.votes[i].Outcome == OutcomeRefused {
			return false
		}
	}
	for name := range q.names {
		for _, left := range q.tokensHoldingLocked(name) {
			most = max(most, len(left))
		}
	}
	if most >= q.tally.Need() {
		return true
	}
	return most+open < q.tally.Need() && !q.mayFailLocked(open)
}

// mayFailLocked reports whether pending answers decide between a fault and a split vote.
func (q *holderQuery) mayFailLocked(open int) bool {
	failed := 0
	for i := range q.votes {
		v, b := &q.votes[i], &q.ballots[i]
		if v.notAwaited() && b.failed() || v.Outcome != OutcomeGranted && v.Outcome != OutcomeRefused && !v.notAwaited() {
			failed++
		}
	}
	spare := len(q.votes) - q.tally.Need()
	return failed <= spare && failed+open > spare
}

// notAwaited reports whether the attempt was decided before the node answered, other than by a
// timeout.
func (v *Vote) notAwaited() bool { return errors.Is(v.Err, errNotAwaited) && v.Took == 0 }

// hadVote reports whether a node granted the attempt, and how long refusals took.
func (e *QuorumError) hadVote() (took time.Duration, granted bool) {
	for _, v := range e.Votes {
		switch v.Outcome {
		case OutcomeGranted:
			granted = true
		case OutcomeRefused:
			took = max(took, v.Took)
		}
	}
	return took, granted
}

// tokensHoldingLocked maps the tokens that hold a name to the remaining times on each node.
func (r *round) tokensHoldingLocked(name int) map[string][]time.Duration {
	held := make(map[string][]time.Duration)
	for i := range r.ballots {
		if h := r.keyStates[i]; len(h) > name && !h[name].Free() {
			held[h[name].Value] = append(held[h[name].Value], h[name].TTL)
		}
	}
	return held
}

// contentionLocked finds the name that one token holds on a quorum for the longest. freeIn is the
// time until that quorum expires, unless it is extended.
func (r *round) contentionLocked() contention {
	var s contention
	var tokens strings.Builder
	for name := range r.names {
		for token, left := range r.tokensHoldingLocked(name) {
			s.foreign = s.foreign || token != "" && !command.WellFormed(token)
			if len(left) < r.tally.Need() {
				continue
			}
			_, _ = fmt.Fprintln(&tokens, name, token)
			slices.Sort(left)
			// The name is free when fewer than a quorum are left.
			if d := left[len(left)-r.tally.Need()]; !s.held || d < 0 || s.freeIn >= 0 && d > s.freeIn {
				s.held, s.freeIn = true, d
			}
		}
	}
	s.tokens = tokens.String()
	return s
}

// asHeldError describes the first key that is not free.
func asHeldError(holds []command.KeyState) error {
	for _, h := range holds {
		switch {
		case h.ForeignType != "":
			return ErrForeignKey
		case !h.Free():
			return &HeldError{Owner: command.Owner(h.Value), Remaining: h.TTL}
		}
	}
	return nil
}
