package redlock

import (
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Node is one Redis master as a [Locker] needs it. [*pool.Node] is one; tests may
// fake one. It must keep three promises:
//
//   - Submit never blocks on the network;
//   - each command is answered exactly once, by [wire.Command.Answer], before or after Submit
//     returns. Before the node writes a command it calls [wire.Command.Send]. If Send returns
//     false the command was cancelled: the node must not write it, and answers it as Failed and
//     NotSent. A release answered as Retrying is retried; a second command reports its result;
//   - commands with one token take effect in the order in which they were submitted, so an
//     acquire cannot overtake the release that undoes it.
//
// A node may answer wire.Examine as Failed: Diagnose then says that it can't be asked.
// Whether its server is fit to vote is the node's own business (wire.NodeSet says what the
// nodes of a Locker have in common).
//
// It is used from many goroutines at once.
type Node interface {
	// Name tells the node from the others, in votes and errors.
	Name() string
	Submit(c *wire.Command)
}

var _ Node = (*pool.Node)(nil)

// Outcome is a node's vote: Granted, Refused, Failed or Unknown.
type Outcome = wire.Outcome

// The outcomes of a vote. Only Granted counts towards a quorum.
const (
	OutcomeUnknown = wire.Unknown // no answer in time: the command may or may not have been executed
	OutcomeGranted = wire.Granted // done
	OutcomeRefused = wire.Refused // held by somebody else, or not by this token
	OutcomeFailed  = wire.Failed  // not executed: unreachable, loading, not permitted, …
)
