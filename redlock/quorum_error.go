package redlock

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// QuorumError reports a decision against the caller, with every node's vote. errors.Is matches
// Reason and the errors of the nodes. Of more than five votes the text has five.
type QuorumError struct {
	Op    string   // "acquire", "extend", "release", "check", "resume", "inspect" or "ping"
	Names []string // of the lock
	Need  int      // N/2+1
	Votes []Vote
	// Reason is ErrHeld, ErrForeignKey, ErrNoQuorum, ErrQuarantined, ErrTooLate or ErrLost.
	Reason error
	// Split reports, if Reason is ErrHeld, that the votes do not show that another client holds the
	// lock. Contenders may have got a part of the nodes each.
	Split bool
	// Expires bounds, for a release that could not be confirmed, how long leftover keys remain.
	Expires time.Duration
}

// Error describes the operation, the lock and the nodes' answers.
func (e *QuorumError) Error() string {
	var refusing, granting []Vote
	for _, v := range e.Votes {
		if v.Outcome == OutcomeGranted {
			granting = append(granting, v)
		} else {
			refusing = append(refusing, v)
		}
	}
	shown := e.Votes
	if _, more := oneline.Few(shown); more != "" { // then those that explain the decision come first
		shown = slices.Concat(refusing, granting)
	}
	all := &multierror.Error{ErrorFormat: oneline.Texts}
	for _, v := range shown {
		all = multierror.Append(all, voteError{v})
	}
	split := ""
	if e.Split {
		split = "split vote, "
	}
	op := e.Op
	if len(e.Names) > 0 {
		op += " " + quoted(e.Names)
	}
	return fmt.Sprintf("%s: %s: %s%d of %d votes, %d needed%s [%v]",
		e.reason(), op, split, len(granting), len(e.Votes), e.Need, e.expiry(), all)
}

// reason returns the text of the reason.
func (e *QuorumError) reason() string {
	switch {
	case errors.Is(e.Reason, ErrForeignKey):
		return "redlock: " + e.Reason.Error()
	case errors.Is(e.Reason, ErrHeld) && e.heldHere():
		return "redlock: held by this process"
	}
	return fmt.Sprint(e.Reason)
}

// heldHere reports whether a lock of the same Locker holds the names.
func (e *QuorumError) heldHere() bool {
	return slices.ContainsFunc(e.Votes, func(v Vote) bool {
		var held *HeldError
		return errors.As(v.Err, &held) && held.here
	})
}

func (e *QuorumError) expiry() string {
	if e.Expires <= 0 {
		return ""
	}
	return fmt.Sprintf("; leftover keys expire within %v", e.Expires)
}

// Unwrap returns Reason and each node's error, so that errors.Is and errors.As find them.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, 1, 1+len(e.Votes))
	errs[0] = e.Reason
	for _, v := range e.Votes {
		if v.Err != nil {
			errs = append(errs, voteError{v})
		}
	}
	return errs
}

// HeldBy returns the client that keeps an acquisition from the lock: the holder whose keys the error shows on a quorum of
// the nodes, or the lock of this process for which the call was queued. Otherwise it returns nil, also for some errors that
// match ErrHeld: contenders have split the votes, keys of several clients that have crashed block the name, a key never
// expires, or not enough nodes have told the holder, as when others were faster at the end of a wait. Then perhaps no
// client works.
//
// So a job that one of many machines runs is skipped without an alarm only if HeldBy names the one that runs it. Of several
// names, that client may hold only one. Clients of other libraries, whose locks have no ID, count as one. An error of Do
// may come from the function, and be about another name: see QuorumError.Names.
func HeldBy(err error) *HeldError {
	var we *waitError
	for errors.As(err, &we) {
		err = we.last // the cause of the context may be another lock's error
	}
	var qe *QuorumError
	var here *HeldError
	switch {
	case !errors.As(err, &qe): // the call was queued
		errors.As(err, &here)
		return here
	case !errors.Is(qe.Reason, ErrHeld), qe.Split:
		return nil
	}
	copies := make(map[string]int) // by Lock.ID
	for _, v := range qe.Votes {
		var held *HeldError
		if !errors.As(v.Err, &held) || held.Remaining < 0 {
			continue
		}
		if copies[held.ID]++; copies[held.ID] == qe.Need {
			return held
		}
	}
	return nil
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

// faultReason distinguishes quarantines that leave no quorum from unreachable nodes.
func (e *QuorumError) faultReason() error {
	_, failed := e.against()
	quarantined := len(e.quarantines())
	if quarantined > 0 && !quorum.Blocks(len(e.Votes), failed-quarantined) {
		return ErrQuarantined
	}
	return ErrNoQuorum
}
