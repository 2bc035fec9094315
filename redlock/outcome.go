package redlock

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// votesError returns the votes of a round as an error.
func votesError(r *vote.Round, reason error) *QuorumError {
	e := &QuorumError{Op: r.Request.Op.String(), Names: r.Names, Reason: reason}
	r.View(func(s *vote.Ballots) {
		e.Need = s.Need()
		for i := range s.ByNode {
			e.Votes = append(e.Votes, voteOf(r.NodeName(i), &s.ByNode[i]))
		}
	})
	return e
}

// voteOf returns a ballot as users see it.
func voteOf(node string, b *vote.Ballot) Vote {
	v := Vote{Node: node, Outcome: Outcome(b.Last), Err: b.Err, Took: b.Latency}
	switch {
	case !b.Counted:
		v.Err = vote.ErrNotAwaited
	case b.Last == command.Granted && b.Vote != command.Granted: // to be undone, and not a vote
		v.Outcome, v.Err = OutcomeUnknown, ErrNodeTimeout
	}
	return v
}

// lossError returns the votes of a round that was not won, with the reason as far as the votes show
// it. ErrHeld is preliminary: describeHolders must confirm it. If the caller did not wait for the
// decision, the reason is ErrHeld only if a node refused.
func lossError(r *vote.Round) *QuorumError {
	e := votesError(r, ErrHeld)
	refused, failed := e.against()
	const blocked = true // not queried yet
	if verdict.Lost(len(e.Votes), refused, failed, blocked) == verdict.Fault || refused == 0 && !r.Decided() {
		e.Reason = e.faultReason()
	}
	return e
}

// faultError returns the votes of a round that too few nodes answered.
func faultError(r *vote.Round) *QuorumError {
	e := votesError(r, nil)
	e.Reason = e.faultReason()
	return e
}

// counted returns what the votes count for.
func (e *QuorumError) counted() []verdict.Vote {
	votes := make([]verdict.Vote, len(e.Votes)) // verdict.NotAwaited
	for i := range e.Votes {
		switch v := &e.Votes[i]; {
		case v.Outcome == OutcomeGranted:
			votes[i] = verdict.Granted
		case v.Outcome == OutcomeRefused:
			votes[i] = verdict.Refused
		case !v.notAwaited():
			votes[i] = verdict.Failed
		}
	}
	return votes
}

// against counts the votes other than grants: refusals, and nodes that failed or did not answer. A
// node that had not answered at the decision counts as neither.
func (e *QuorumError) against() (refused, failed int) {
	votes := e.counted()
	return verdict.Count(votes, verdict.Refused), verdict.Count(votes, verdict.Failed)
}

// votes counts the nodes that voted.
func (e *QuorumError) votes() int {
	votes := e.counted()
	return verdict.Count(votes, verdict.Granted) + verdict.Count(votes, verdict.Refused)
}

// notAwaited reports whether the attempt was decided before the node answered, other than by a
// timeout.
func (v *Vote) notAwaited() bool { return errors.Is(v.Err, vote.ErrNotAwaited) && v.Took == 0 }

// refusalsTook returns how long refusals took.
func (e *QuorumError) refusalsTook() (took time.Duration) {
	for _, v := range e.Votes {
		if v.Outcome == OutcomeRefused {
			took = max(took, v.Took)
		}
	}
	return took
}

// blockedBy reports whether the nodes that answered with this error leave no quorum.
func (e *QuorumError) blockedBy(err error) bool {
	n := 0
	for _, v := range e.Votes {
		if errors.Is(v.Err, err) {
			n++
		}
	}
	return n > len(e.Votes)-e.Need
}

// quarantines lists the remaining times of quarantined nodes, the shortest first.
func (e *QuorumError) quarantines() []time.Duration {
	var all []time.Duration
	for _, v := range e.Votes {
		var q *QuarantineError
		if errors.As(v.Err, &q) {
			all = append(all, q.Remaining)
		}
	}
	slices.Sort(all)
	return all
}

// QuarantinedFor returns how long until enough quarantines end for a quorum. It assumes that
// nodes that failed for other reasons stay failed, and that nodes that had not answered are
// healthy. It is 0 if Reason is not ErrQuarantined.
func (e *QuorumError) QuarantinedFor() time.Duration {
	if !errors.Is(e.Reason, ErrQuarantined) {
		return 0
	}
	all, failed := e.quarantines(), 0
	for _, v := range e.Votes {
		if (v.Outcome == OutcomeFailed || v.Outcome == OutcomeUnknown) && !errors.Is(v.Err, vote.ErrNotAwaited) {
			failed++
		}
	}
	spare := len(e.Votes) - e.Need
	if over := failed - spare; over > 0 && over <= len(all) {
		return all[over-1]
	}
	return 0
}

// faultReason distinguishes quarantines that leave no quorum from unreachable nodes.
func (e *QuorumError) faultReason() error {
	_, failed := e.against()
	quarantined := len(e.quarantines())
	if quarantined > 0 && !quorum.Blocks(len(e.Votes), failed-quarantined) {
		return ErrQuarantined
	}
	return ErrNoQuorum
}
