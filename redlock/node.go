package redlock

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// Node is one voter: a Redis server, a group behind Sentinels, or a Redis Cluster. Package pool
// makes nodes, and package redlocktest makes them for tests. Users hold nodes and pass them to
// [New]. They do not implement them: New refuses a node of another package.
type Node interface {
	// Name returns the name that identifies the node in votes and errors.
	Name() string
}

var _ Node = (*pool.Node)(nil)

// Outcome is a node's vote.
type Outcome uint8

// The outcomes of a vote. Only OutcomeGranted counts towards a quorum.
const (
	OutcomeUnknown Outcome = iota // no answer in time: the command may have been executed
	OutcomeGranted                // executed
	OutcomeRefused                // held by another client, or not held by this token
	OutcomeFailed                 // not executed: unreachable, loading, not permitted, …
)

// String returns "unknown", "granted", "refused" or "failed".
func (o Outcome) String() string { return command.Outcome(o).String() }

// kindOf returns the special properties of a node.
func kindOf(n Node) command.NodeKind { return command.KindOf(command.VoterOf(n)) }

// checkKinds rejects nodes whose kind conflicts with the settings.
func (s *settings) checkKinds(nodes []Node) error {
	for _, n := range nodes {
		switch t := kindOf(n); {
		case t.MaxAge > 0 && !s.guarded:
			return invalid("node %s follows Sentinels and needs WithRestartGuard: a promoted replica may lack the last locks "+
				"of its master", n.Name())
		case t.Cluster && s.guarded:
			return invalid("node %s is a Redis Cluster, which cannot have WithRestartGuard: scripts read the marker, one key of "+
				"each server, but a Cluster restricts a script to the keys of one slot; omit the guard, or use single masters "+
				"or masters with Sentinels", n.Name())
		}
	}
	return nil
}

// clustered reports whether any of the nodes is a Redis Cluster.
func clustered(nodes []Node) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return kindOf(n).Cluster })
}

// reusable reports whether all nodes drop every command that they have answered. That is known of
// package pool's nodes that are single masters. Another implementation, such as a test's, may read a
// command after its answer.
func reusable(nodes []Node) bool {
	return poolNodes(nodes) && !clustered(nodes)
}

// poolNodes reports whether all nodes are from package pool, so that Submit never blocks.
func poolNodes(nodes []Node) bool {
	return !slices.ContainsFunc(nodes, func(n Node) bool {
		_, ok := n.(*pool.Node)
		return !ok
	})
}

// checkSlots rejects a lock that a Redis Cluster cannot take in one step, because its keys are on
// several masters (docs/dev/rules.md rule 30).
func (l *Locker) checkSlots(names []string) error {
	keys := l.keys(names)
	if !command.SameSlot(keys) {
		return invalid("names in several slots of a Redis Cluster: give them a common " +
			"hash tag, as in {order:7}:stock and {order:7}:payment")
	}
	for _, k := range keys {
		if l.set.fencing && !command.CanHaveFenceKey(k) {
			return invalid("key %q cannot have a fence counter in its slot of a Redis Cluster because of the }: remove the }, or add "+
				"a hash tag, as in {order:7}:stock", k)
		}
	}
	return nil
}

// defaultRecovery is the NodeKind.Recovery of a node that does not report its own.
const defaultRecovery = 10 * time.Second

// recovery returns the longest NodeKind.Recovery of all nodes.
func recovery(nodes []Node) time.Duration {
	var longest time.Duration
	for _, n := range nodes {
		longest = max(longest, cmp.Or(kindOf(n).Recovery, defaultRecovery))
	}
	return longest
}

// maxAges returns, by name, how much longer the quarantines of nodes last; nil if none do.
func maxAges(nodes []Node) map[string]time.Duration {
	var all map[string]time.Duration
	for _, n := range nodes {
		if d := kindOf(n).MaxAge; d > 0 {
			if all == nil {
				all = make(map[string]time.Duration)
			}
			all[n.Name()] = d
		}
	}
	return all
}
