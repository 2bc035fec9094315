package redlock

import (
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// won reports whether a majority granted.
func (r *round) won() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decided.Load() && r.decision == quorum.Won
}

// lost reports whether it was decided that no majority can grant.
func (r *round) lost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decided.Load() && r.decision == quorum.Lost
}

// refusedByQuorum reports whether so many nodes refused, including late answers, that no majority
// can grant.
func (r *round) refusedByQuorum() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused > len(r.ballots)-quorum.Majority(len(r.ballots))
}

// surelyFree reports whether a majority released the token or, because it was skipped, never had
// it. Other clients can then have the name. A node that had the token and lost it does not count,
// because it is unknown how the hold ended there.
func (r *round) surelyFree() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range r.ballots {
		b := &r.ballots[i]
		if b.outcome == command.Granted || b.outcome == command.Refused && b.notSent {
			n++
		}
	}
	return n >= r.tally.Need()
}

// confirmed reports whether a majority confirmed that it holds nothing of the token: it deleted the
// keys or had none. It is for rounds that undo.
func (r *round) confirmed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range r.ballots {
		if b := &r.ballots[i]; b.outcome == command.Granted || b.outcome == command.Refused || b.undone {
			n++
		}
	}
	return n >= r.tally.Need()
}

// asLossError returns the votes of a round that was not won, with the reason as far as the votes
// show it. ErrHeld is preliminary: describeHolders must confirm it. If the caller did not wait for
// the decision, the reason is ErrHeld only if a node refused.
func (r *round) asLossError() *QuorumError {
	e := r.asError(ErrHeld)
	refused, failed := e.against()
	if quorum.LossOf(len(e.Votes), refused, failed, true) == quorum.NoQuorum || refused == 0 && !r.decided.Load() {
		e.Reason = e.faultReason()
	}
	return e
}

// against counts the votes other than grants: refusals, and nodes that failed or did not answer. A
// node that had not answered at the decision counts as neither.
func (e *QuorumError) against() (refused, failed int) {
	for i := range e.Votes {
		switch v := &e.Votes[i]; {
		case v.Outcome == OutcomeRefused:
			refused++
		case v.Outcome != OutcomeGranted && !v.notAwaited():
			failed++
		}
	}
	return refused, failed
}

// asError returns the votes of the round as an error.
func (r *round) asError(reason error) *QuorumError {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &QuorumError{Op: r.req.Op.String(), Names: r.names, Need: r.tally.Need(), Reason: reason}
	for i := range r.ballots {
		b := &r.ballots[i]
		v := Vote{Node: r.l.nodes[i].Name(), Outcome: Outcome(b.outcome), Err: b.err, Took: b.latency}
		switch {
		case !b.voted && !b.replied:
			v.Err = errNotAwaited
		case b.late && b.outcome == command.Granted: // to be undone, and not a vote
			v.Outcome, v.Err = OutcomeUnknown, ErrNodeTimeout
		}
		e.Votes = append(e.Votes, v)
	}
	return e
}

// asFaultError returns the votes of a round that too few nodes answered.
func (r *round) asFaultError() *QuorumError {
	e := r.asError(nil)
	e.Reason = e.faultReason()
	return e
}
