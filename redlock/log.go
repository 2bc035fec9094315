package redlock

import (
	"errors"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// standingLog logs what lasts when it begins and when it ends, and not with every attempt
// that meets it: whether a quorum answers, and which nodes do not vote for what they are.
type standingLog struct {
	dark atomic.Bool   // no quorum answered the latest attempt
	out  []atomic.Bool // by node: it does not vote
}

// attempted is told of every attempt's outcome.
func (ev *events) attempted(names []string, err error) {
	switch {
	case ev.logger == nil:
	case errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrQuarantined):
		var cut *waitError // by its context: it tells nothing of the nodes
		if !errors.As(err, &cut) && !ev.standing.dark.Swap(true) {
			ev.warn("no quorum votes: nothing can be acquired", "names", printable(names), "error", err)
		}
	case err == nil || quorumVoted(err):
		if ev.standing.dark.Load() && ev.standing.dark.Swap(false) {
			ev.info("a quorum votes again")
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

// voted is told of every vote on an acquisition: other commands are executed by nodes that
// do not vote, too.
func (ev *events) voted(node int, name string, rep wire.Reply) {
	if ev.logger == nil {
		return
	}
	out := &ev.standing.out[node]
	if rep.Outcome == wire.Granted || rep.Outcome == wire.Refused {
		if out.Load() && out.Swap(false) {
			ev.info("a node votes again", "node", name)
		}
		return
	}
	var q *QuarantineError
	if (errors.Is(rep.Err, ErrUnfit) || errors.As(rep.Err, &q)) && !out.Swap(true) {
		ev.warn("a node does not vote", "node", name, "error", rep.Err)
	}
}
