package redlock

import (
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Node is one Redis server as a [Locker] uses it. [*pool.Node] implements it, and tests may fake
// it. A Node must keep three promises:
//
//   - Submit never blocks on the network;
//   - each command is answered exactly once, by [wire.Command.Answer], before or after Submit
//     returns. Before the node writes a command it calls [wire.Command.Send]. If Send returns
//     false the command was cancelled: the node must not write it, and answers it as Failed and
//     NotSent. A release answered as Retrying is retried; a second command reports its result;
//   - commands with one token take effect in the order in which they were submitted, so an
//     acquire cannot overtake the release that undoes it.
//
// A node may answer wire.Examine as Failed. Diagnose then reports that the node cannot be examined.
// The node itself decides whether its server is fit to vote (see wire.NodeSet, which the nodes of a
// Locker share). All methods are called concurrently.
type Node interface {
	// Name returns the name that identifies the node in votes and errors.
	Name() string
	// Submit queues a command. See the promises above.
	Submit(c *wire.Command)
}

var _ Node = (*pool.Node)(nil)

// Outcome is a node's vote: Granted, Refused, Failed or Unknown.
type Outcome = wire.Outcome

// The outcomes of a vote. Only Granted counts towards a quorum.
const (
	OutcomeUnknown = wire.Unknown // no answer in time: the command may have been executed
	OutcomeGranted = wire.Granted // executed
	OutcomeRefused = wire.Refused // held by another client, or not held by this token
	OutcomeFailed  = wire.Failed  // not executed: unreachable, loading, not permitted, …
)
