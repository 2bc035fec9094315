package redlock

import (
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// Node is one voter: a Redis server, a group behind Sentinels, or a Redis Cluster. Package pool
// makes nodes, and package redlocktest makes them for tests. Users hold nodes and pass them to
// [New]. They do not implement them: how a Locker speaks to a node is internal.
type Node interface {
	// Name returns the name that identifies the node in votes and errors.
	Name() string
	// Voter returns what a Locker speaks to. Its methods are internal: internal/command says what
	// they promise.
	Voter() command.Node
}

var _ Node = (*pool.Node)(nil)

// Outcome is a node's vote.
type Outcome uint8

// The outcomes of a vote. Only OutcomeGranted counts towards a quorum.
const (
	OutcomeUnknown = Outcome(command.Unknown) // no answer in time: the command may have been executed
	OutcomeGranted = Outcome(command.Granted) // executed
	OutcomeRefused = Outcome(command.Refused) // held by another client, or not held by this token
	OutcomeFailed  = Outcome(command.Failed)  // not executed: unreachable, loading, not permitted, …
)

// String returns "unknown", "granted", "refused" or "failed".
func (o Outcome) String() string { return command.Outcome(o).String() }
