package wire

import "time"

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

// SentinelAnswer is the last answer of one Sentinel of a node.
type SentinelAnswer struct {
	Address string // of the Sentinel
	Master  string // the master that it named; empty if it knows none, or has not answered yet
	Age     time.Duration
	Others  int    // the number of other Sentinels that it knows
	Err     string // why it could not be queried since; empty if it could
}
