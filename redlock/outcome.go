package redlock

import (
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool/wire"
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

// refusedByQuorum reports whether so many nodes said no, also late, that no
// majority can say yes.
func (r *round) refusedByQuorum() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused > len(r.ballots)-quorum.Majority(len(r.ballots))
}

// cleared reports whether a majority released the token or, being spared, never had
// it. Others can have the name then. A node that had it and lost it does not count:
// with its loss in doubt nobody knows how the hold ended.
func (r *round) cleared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for i := range r.ballots {
		b := &r.ballots[i]
		if b.outcome == wire.Granted || b.outcome == wire.Refused && b.unsent {
			n++
		}
	}
	return n >= r.tally.Need()
}

// reason tells a refusal from a fault, for a round that was not won. It is part of
// the decision: who answers later does not change it. Of a round that was not
// waited for nobody knows that the name is held, unless a node said so.
func (r *round) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.faulty || !r.decided.Load() && (r.refused == 0 || !r.tally.Reachable()) {
		return r.fault()
	}
	return ErrHeld
}

// trouble is why too few nodes answered.
func (r *round) trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fault()
}

// fail is the round's outcome as an error.
func (r *round) fail(reason error) *QuorumError {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &QuorumError{Op: r.req.Op.String(), Names: r.names, Need: r.tally.Need(), Reason: reason}
	for i := range r.ballots {
		b := &r.ballots[i]
		v := Vote{Node: r.l.nodes[i].Name(), Outcome: b.outcome, Err: b.err, Took: b.took}
		switch {
		case !b.voted && !b.replied:
			v.Err = errUndecided
		case b.late && b.outcome == wire.Granted: // known, to be undone, and no vote
			v.Outcome, v.Err = Unknown, ErrNodeTimeout
		}
		e.Votes = append(e.Votes, v)
	}
	return e
}
