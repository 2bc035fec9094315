package command

import (
	"fmt"
	"time"
)

// Node is how a coordinator speaks to one voter. All methods are called concurrently. A Node keeps
// three promises:
//
//   - Submit never blocks on the network;
//   - each command is answered exactly once, by Command.Answer, before or after Submit returns.
//     Before the node writes a command it calls MarkSent. If that returns false the command was
//     cancelled: the node must not write it, and answers it as Failed and NotSent. A release
//     answered as Retrying is retried; a second command reports its result;
//   - commands with one token take effect in the order in which they were submitted, so an
//     acquire cannot overtake the release that undoes it.
//
// The node itself decides whether its server is fit to vote (see NodeSet, which the nodes of a
// coordinator share).
type Node interface {
	// Name returns the name that identifies the node in votes and errors.
	Name() string
	// Submit queues a command.
	Submit(c *Command)
}

// Voter is everything that a node of package pool can do.
type Voter interface {
	Node
	Subscriber
	fmt.Stringer // its address without a password
	// SubmitBoth submits two commands that are written together, the second after the first.
	SubmitBoth(first, second *Command)
	// Kind returns what a coordinator must know about the node before it sends anything to it.
	Kind() NodeKind
	// WhyNotVoting returns why the node would not vote for a node set now, or nil if it would, as far
	// as it knows without asking its server.
	WhyNotVoting(s *NodeSet) error
}

// WhyNotVoting returns what Voter.WhyNotVoting returns, and nil for a node that does not report it.
func WhyNotVoting(n Node, s *NodeSet) error {
	if v, ok := n.(interface{ WhyNotVoting(s *NodeSet) error }); ok {
		return v.WhyNotVoting(s)
	}
	return nil
}

// FromPool returns the voter of a node that package pool made. Package pool sets it, so that the exported
// methods of its nodes have no type of this package.
var FromPool func(node any) (Voter, bool)

// VoterOf returns what a coordinator speaks to: the voter of a node of package pool, or that of a test's
// own node. It returns nil for anything else.
func VoterOf(node any) Node {
	if own, ok := node.(interface{ Voter() Node }); ok {
		return own.Voter()
	}
	if v, ok := FromPool(node); ok {
		return v
	}
	return nil
}

// KindOf returns the kind of a node, or the zero NodeKind if it does not report any.
func KindOf(n Node) NodeKind {
	if k, ok := n.(interface{ Kind() NodeKind }); ok {
		return k.Kind()
	}
	return NodeKind{}
}

// NodeKind is what a coordinator must know about a node before it sends anything to it. The zero
// value is a single master.
type NodeKind struct {
	// MaxAge is how much longer than maxTTL the node's quarantines last. It is 0 except for a
	// node behind Sentinels, which needs the restart guard (docs/dev/rules.md rule 29).
	MaxAge time.Duration
	// Cluster reports that the node is a Redis Cluster. All keys of a request must have one slot
	// there, and the restart guard is not possible (docs/dev/rules.md rule 30).
	Cluster bool
	// Recovery is how long it can take until a command that a server left unanswered was sent
	// again on a new connection: the hard timeout and the dial timeout. 0 means unknown.
	Recovery time.Duration
}
