package wire

import "time"

// NodeKind are what a coordinator must know of a node's kind before it asks it anything.
// The zero value is a master by itself.
type NodeKind struct {
	// MaxAge is how much longer than maxTTL the node's quarantines last: 0, but for a node
	// behind Sentinels, which needs the restart guard (docs/rules.md rule 29).
	MaxAge time.Duration
	// Cluster: the node is a Redis Cluster. All keys of a request must have one slot there,
	// and the restart guard can't be (docs/rules.md rule 30).
	Cluster bool
	// Recovery is how long a command that a server leaves unanswered can take until it was
	// sent again on a new connection: the hard timeout and the dial timeout. 0: not known.
	Recovery time.Duration
}

// SentinelAnswer is what one Sentinel of a node said last.
type SentinelAnswer struct {
	Address string // the Sentinel's
	Master  string // the one that it named; empty when it knows of none, or was not heard yet
	Age     time.Duration
	Others  int    // how many other Sentinels it knows of
	Err     string // why it could not be asked since; empty when it could
}
