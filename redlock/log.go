package redlock

import (
	"errors"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
)

// stateLog logs lasting states when they begin and when they end, not at every attempt: whether a
// quorum votes, and which nodes do not vote.
type stateLog struct {
	noQuorum  atomic.Bool   // the latest attempt found no quorum
	notVoting []atomic.Bool // by node: it does not vote
}

// noteAttempt records an attempt's outcome.
func (d *dispatcher) noteAttempt(names []string, err error) {
	switch {
	case d.logger == nil:
	case errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrQuarantined):
		// An error of the context shows nothing about the nodes.
		var cut *waitError
		if !errors.As(err, &cut) && !d.state.noQuorum.Swap(true) {
			d.warn("no quorum votes: nothing can be acquired", "names", printable(names), "error", err)
		}
	case err == nil || quorumVoted(err):
		if d.state.noQuorum.Load() && d.state.noQuorum.Swap(false) {
			d.info("a quorum votes again")
		}
	}
}

// quorumVoted reports whether a quorum of nodes voted in a failed attempt.
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

// noteVote records a vote on an acquisition. Other commands are no evidence, because nodes that do
// not vote also execute them.
func (d *dispatcher) noteVote(node int, name string, rep command.Reply) {
	if d.logger == nil {
		return
	}
	out := &d.state.notVoting[node]
	if rep.Outcome == command.Granted || rep.Outcome == command.Refused {
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
