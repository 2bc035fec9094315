package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// contention is what a contender sees of a name that it did not get.
type contention struct {
	held   bool          // it is no split vote: one token stands on a quorum, or nobody can have one
	freeIn time.Duration // how long until that can be over without a release; negative: nobody knows

	blocked time.Duration // for how long the same keys have left no quorum
	took    time.Duration // that the attempt took until it was decided
	tokens  string        // that stand on a quorum, for all names
	foreign bool          // a token is not of this library, whose releases are announced
	cut     bool          // the context's end or Close kept the query from its end: nothing else is set
}

// holderQuery asks nodes who holds the names, after an attempt that others had the better of. It
// waits for those that refused, who answered just now, and for others only while they can
// show a token on a quorum: a frozen one must hold nobody up where the others tell.
type holderQuery struct {
	*round
	votes []Vote // of the attempt
}

// describeHolders queries the nodes for the reason of an attempt that failed, and returns its error with that
// reason and with the holder that each node reported. After a refusal it costs one round trip, and nothing
// otherwise. It queries the nodes that refused. It also queries nodes that had not answered at the decision
// if their answers can change the reason: where they decide between a fault and a split vote it may last
// the node timeout. A query that the context's end or Close cuts short changes no reason.
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
	case <-l.closing: // what is found would be of no use
		cut = true
	}
	l.alarms.Clear(&k.alarm)
	e := attempt.exchange.acquire.asError(ErrHeld) // with the votes that came in meanwhile
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

// fillInLocked adds what the query found to the votes of the attempt. Called under mu.
func (q *holderQuery) fillInLocked(votes []Vote) {
	for i := range q.ballots {
		b, v, why := &q.ballots[i], &votes[i], asHeldError(q.keyStates[i])
		if q.votes[i].notAwaited() && errors.Is(v.Err, wire.ErrGivenUp) {
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
			v.Outcome, v.Err, v.Took = b.outcome, b.err, b.latency
		}
	}
}

// failed reports whether a query was asked and answered by nothing, or not in time.
func (b *ballot) failed() bool {
	return b.voted && b.outcome != wire.Granted && b.outcome != wire.Refused
}

// queryHolders begins one. Its wake gets a value when enough is known.
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
		timeout = min(timeout, l.notAwaitedTimeout(k.votes, took)) // it may be a split vote: see hurry
	}
	k.rule, k.start = afterAll, l.now()
	k.sendAll(timeout, func(node int) (wire.Reply, bool) {
		v := &k.votes[node]
		return wire.Reply{Outcome: wire.Refused, NotSent: true}, v.Outcome != wire.Refused && (!more || !v.notAwaited())
	})
	return k
}

// notAwaitedTimeout is how long to wait for the nodes that had not answered, as after a tie.
func (l *Locker) notAwaitedTimeout(votes []Vote, took time.Duration) time.Duration {
	d := tieTimeout(took)
	for i := range votes {
		if votes[i].notAwaited() {
			d = max(d, l.trips[i].patience())
		}
	}
	return d
}

// Answer takes one node's answer.
func (q *holderQuery) Answer(c *wire.Command, rep wire.Reply) {
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

// conclusiveLocked reports whether nothing that is still to come can show a token on a quorum, or one
// is seen there already. Called under mu.
func (q *holderQuery) conclusiveLocked() bool {
	open, most := 0, 0
	for i := range q.ballots {
		if q.ballots[i].voted {
			continue
		}
		if open++; q.votes[i].Outcome == wire.Refused {
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

// mayFailLocked reports whether the nodes still to be heard of decide between a fault and a split vote.
// Called under mu.
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

// notAwaited reports whether an attempt was decided before the node answered, and not by
// its silence.
func (v *Vote) notAwaited() bool { return errors.Is(v.Err, errNotAwaited) && v.Took == 0 }

// hadVote reports whether the attempt had a vote, and how long refusals took.
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

// tokensHoldingLocked lists the tokens that hold a name, and for how long on each node. Called under mu.
func (r *round) tokensHoldingLocked(name int) map[string][]time.Duration {
	held := make(map[string][]time.Duration)
	for i := range r.ballots {
		if h := r.keyStates[i]; len(h) > name && !h[name].Free() {
			held[h[name].Value] = append(held[h[name].Value], h[name].TTL)
		}
	}
	return held
}

// contentionLocked finds the name that one token holds on a quorum, for the longest: until the quorum
// expires, unless it is extended. Called under mu.
func (r *round) contentionLocked() contention {
	var s contention
	var tokens strings.Builder
	for name := range r.names {
		for token, left := range r.tokensHoldingLocked(name) {
			s.foreign = s.foreign || token != "" && !wire.WellFormed(token)
			if len(left) < r.tally.Need() {
				continue
			}
			_, _ = fmt.Fprintln(&tokens, name, token)
			slices.Sort(left)
			// It is free when too few are left for a quorum.
			if d := left[len(left)-r.tally.Need()]; !s.held || d < 0 || s.freeIn >= 0 && d > s.freeIn {
				s.held, s.freeIn = true, d
			}
		}
	}
	s.tokens = tokens.String()
	return s
}

// asHeldError says what stands in the way, by the first key that isn't free.
func asHeldError(holds []wire.KeyState) error {
	for _, h := range holds {
		switch {
		case h.ForeignType != "":
			return ErrForeignKey
		case !h.Free():
			return &HeldError{Owner: wire.Owner(h.Value), Remaining: h.TTL}
		}
	}
	return nil
}
