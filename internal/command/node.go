package command

import (
	"fmt"
	"time"
)

// Node is how a Locker speaks to one voter. All methods are called concurrently. A Node keeps three
// promises:
//
//   - Submit never blocks on the network, and answers no command: its caller may hold a mutex;
//   - each command that it has taken is answered exactly once, by Command.Answer, on a goroutine of
//     the node. Before the node writes a command it calls MarkSent. If that returns false the command
//     was cancelled: the node must not write it, and answers it as Failed and NotSent. A release
//     answered as Retrying is retried; a second command reports its result;
//   - commands with one token take effect in the order in which they were submitted, so an
//     acquire cannot overtake the release that undoes it.
//
// The node itself decides whether its server is fit to vote.
type Node interface {
	// Name returns the name that identifies the node in votes and errors.
	Name() string
	// Submit queues a command and, if behind is not nil, a second one that is written right behind it. It
	// returns why the node does not take them. It takes both or neither, and the caller answers those that
	// it does not take (Command.Fail). Of undos it takes all as long as the node is open.
	Submit(c, behind *Command) error
}

// Submit submits a command to a node, and answers it if the node does not take it. It must be called without
// a mutex.
func Submit(n Node, c *Command) {
	if err := n.Submit(c, nil); err != nil {
		c.Fail(err)
	}
}

// Voter is everything that a node of package pool can do.
type Voter interface {
	Node
	Subscriber
	fmt.Stringer // its address without a password
	// Join gives the node to a Locker, which submits nothing before. It returns an error if the node is
	// closed, or belongs to a Locker.
	Join(m *Membership) error
	// Leave reverts Join, for a Locker that has submitted nothing.
	Leave()
	// Kind returns what a coordinator must know about the node before it sends anything to it.
	Kind() NodeKind
	// WhyNotVoting returns why the node would not vote now, or nil if it would, as far as it knows without
	// asking its server.
	WhyNotVoting() error
	// Close answers all commands, and returns when the node has ended. It may be called more than once.
	Close() error
}

// FromPool returns the Voter of a *pool.Node. Package pool sets it, so that the exported methods of its nodes
// have no type of this package. A test may replace it.
var FromPool func(node any) Voter

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
	// again on a new connection: the hard timeout and the dial timeout.
	Recovery time.Duration
}

// Subscriber is a node that supports pub/sub.
type Subscriber interface {
	// Subscribe returns a subscription without channels. It ends at the latest with the node.
	Subscribe(Listener) Subscription
}

// Subscription is a separate connection for pub/sub. It is safe for concurrent use, and only Close
// waits.
type Subscription interface {
	// Add subscribes to a channel. It starts the connection if necessary.
	Add(channel string)
	// Remove unsubscribes from a channel. Some of its messages may still arrive.
	Remove(channel string)
	// Close ends the connection and waits until the listener is no longer called.
	Close()
}

// Listener receives the events of a Subscription. One goroutine calls it. It must not block.
type Listener interface {
	// Subscribed reports that messages of the channel arrive from now on. It is called again
	// after each reconnect: messages in between are lost.
	Subscribed(channel string)
	// Message reports a message on the channel. Messages may be lost.
	Message(channel, payload string)
	// Down reports that the connection ended. Nothing arrives until Subscribed is called again.
	Down(err error)
}
