package redlock

import (
	"time"

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
