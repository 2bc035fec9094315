package redlock

import (
	"errors"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// stateLog logs what lasts when it begins and when it ends, and not with every attempt
// that meets it: whether a quorum answers, and which nodes do not vote for what they are.
type stateLog struct {
	noQuorum  atomic.Bool   // no quorum answered the latest attempt
	notVoting []atomic.Bool // by node: it does not vote
}

// noteAttempt is told of every attempt's outcome.
func (d *dispatcher) noteAttempt(names []string, err error) {
	switch {
	case d.logger == nil:
	case errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrQuarantined):
		var cut *waitError // by its context: it tells nothing of the nodes
		if !errors.As(err, &cut) && !d.state.noQuorum.Swap(true) {
			d.warn("no quorum votes: nothing can be acquired", "names", printable(names), "error", err)
		}
	case err == nil || quorumVoted(err):
		if d.state.noQuorum.Load() && d.state.noQuorum.Swap(false) {
			d.info("a quorum votes again")
		}
	}
}

// quorumVoted reports whether a quorum of nodes voted in an attempt that failed.
func quorumVoted(err error) bool {
	var e *QuorumError
	if !errors.As(err, &e) {
		return false
	}
	votes := 0
	for _, v := range e.Votes {
		if v.Outcome == OutcomeGranted || v.Outcome == OutcomeRefused {
			votes++
		}
	}
	return votes >= e.Need
}

// noteVote is told of every vote on an acquisition: other commands are executed by nodes that
// do not vote, too.
func (d *dispatcher) noteVote(node int, name string, rep wire.Reply) {
	if d.logger == nil {
		return
	}
	out := &d.state.notVoting[node]
	if rep.Outcome == wire.Granted || rep.Outcome == wire.Refused {
		if out.Load() && out.Swap(false) {
			d.info("a node votes again", "node", name)
		}
		return
	}
	var q *QuarantineError
	if (errors.Is(rep.Err, ErrUnfit) || errors.As(rep.Err, &q)) && !out.Swap(true) {
		d.warn("a node does not vote", "node", name, "error", rep.Err)
	}
}
