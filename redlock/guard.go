package redlock

import (
	"errors"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/pool"
)

// QuarantineError reports that a healthy node does not vote under the restart guard, and for how
// much longer.
type QuarantineError = pool.QuarantineError

// WithRestartGuard stops nodes that may have forgotten locks from voting until all those locks have
// expired. A node may have forgotten locks after a restart (with or without persisted data), after
// FLUSHALL, FLUSHDB or SWAPDB, or after its promotion from a replica. Such a node is quarantined
// for maxTTL.
//
// maxTTL is the bound of every TTL: whole milliseconds, from 10 ms, as in WithMaxTTL. maxTTL and
// the list of the nodes' names must be the same for all clients of the nodes. The guard's state is
// on each node, in the key redlock:guard, so it also covers clients that never used the node before.
//
// The guard adds one GET to each script that creates a key. In a new deployment the first
// acquisition starts a quarantine of maxTTL on every node: see doctor.Admit. Meanwhile acquisitions
// wait, or fail with ErrQuarantined. Clients without the guard do not check it. From their next
// connection on they refuse a guarded node, unless WithUnsafeNodes names it. Until the last of them
// has stopped, locks are mutually exclusive but not guarded.
func WithRestartGuard(maxTTL time.Duration) Option {
	return option(func(s *settings) { s.guarded, s.guardTTL = true, maxTTL })
}

// WithRepair restores the copy of a held lock on a node that has lost it. This happens after an
// extension that the majority confirmed, once the node votes again. An automatically extended lock
// thus survives the restart of all its nodes, one after another, each after the quarantine of the
// one before. WithRepair needs WithRestartGuard. Otherwise the repaired copy could replace a grant
// that the node has forgotten.
func WithRepair() Option { return option(func(s *settings) { s.repair = true }) }

// resolve applies settings that depend on each other. It runs before check.
func (s *settings) resolve() error {
	switch {
	case s.repair && !s.guarded:
		return invalid("WithRepair needs WithRestartGuard")
	case !s.guarded:
		return nil
	case s.maxTTLSet && s.maxTTL != s.guardTTL:
		return invalid("WithMaxTTL(%v) with WithRestartGuard(%v): the values must be equal", s.maxTTL, s.guardTTL)
	}
	s.maxTTL = s.guardTTL
	return nil
}

// newGuard returns what all guarded clients of the nodes must agree on, or nil without the guard.
func (s *settings) newGuard(nodes []command.Voter) *guard.Settings {
	if !s.guarded {
		return nil
	}
	g := guard.New(s.maxTTL, nodeNames(nodes))
	for _, n := range nodes {
		if d := n.Kind().MaxAge; d > 0 {
			g.MaxAge[n.Name()] = d
		}
	}
	return g
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
