package redlock

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// QuarantineError is why a node does not vote under the restart guard though it is well,
// and for how long.
type QuarantineError = wire.QuarantineError

// WithRestartGuard keeps nodes from voting that may have forgotten locks, until every
// lock that they may have forgotten has expired: one that was started anew (with or
// without what it had written to disk), emptied (FLUSHALL, FLUSHDB, SWAPDB), or promoted
// from a replica. Such a node is quarantined for maxTTL, which is the bound of every TTL
// (whole milliseconds, from 10 ms, as in WithMaxTTL) and must be the same for all clients
// of the nodes, as must be the list of their names. Clients that never saw the node before
// are covered: the state is on the node, in the key redlock:node.
//
// It costs one more GET in the scripts that create a key. A new fleet, too, waits maxTTL
// once, by itself: see Locker.Admit. Meanwhile acquisitions fail with ErrQuarantined, or
// wait for its end. Clients that know nothing of the guard ignore it (docs/hazards.md H112):
// until the last of them is gone there is exclusion, but no guard.
func WithRestartGuard(maxTTL time.Duration) Option {
	return option(func(s *settings) { s.guarded, s.guardTTL = true, maxTTL })
}

// WithRepair gives a node that has lost its copy of a held lock a new one, after an
// extension that the majority confirmed, once the node votes again. So a lock that
// extends itself outlives the restart of all its nodes, one after the other, each after
// the quarantine of the one before. It needs WithRestartGuard: without it a repaired copy
// could take the place of a grant that the node has forgotten (docs/hazards.md H115).
func WithRepair() Option { return option(func(s *settings) { s.repair = true }) }

// resolve makes one of settings that say something together, before they are checked.
func (s *settings) resolve() error {
	switch {
	case s.repair && !s.guarded:
		return invalid("WithRepair needs WithRestartGuard")
	case !s.guarded:
		return nil
	case s.maxTTLSet && s.maxTTL != s.guardTTL:
		return invalid("WithMaxTTL(%v) with WithRestartGuard(%v): the guard's is the bound of every TTL", s.maxTTL, s.guardTTL)
	}
	s.maxTTL = s.guardTTL
	return nil
}

// newNodeSet is what the nodes of a Locker have in common.
func newNodeSet(set settings, nodes []Node) *wire.NodeSet {
	f := wire.NewNodeSet(set.unchecked, set.unsafe...)
	if set.guarded {
		f.Guard = wire.NewGuard(set.maxTTL, nodeNames(nodes))
		f.Guard.MaxAge = maxAges(nodes)
	}
	return f
}

// quarantines lists for how long nodes are quarantined still, the shortest first.
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
		if (v.Outcome == OutcomeFailed || v.Outcome == OutcomeUnknown) && !errors.Is(v.Err, errNotAwaited) {
			failed++
		}
	}
	spare := len(e.Votes) - e.Need
	if over := failed - spare; over > 0 && over <= len(all) {
		return all[over-1]
	}
	return 0
}

// faultReason tells quarantines that leave no quorum from nodes that can't be reached.
func (e *QuorumError) faultReason() error {
	_, failed := e.against()
	quarantined := len(e.quarantines())
	if quarantined > 0 && failed-quarantined <= len(e.Votes)-e.Need {
		return ErrQuarantined
	}
	return ErrNoQuorum
}
