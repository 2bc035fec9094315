package redlock

import (
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
)

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

// clustered reports whether any of the nodes is a Redis Cluster.
func clustered(nodes []command.Voter) bool {
	return slices.ContainsFunc(nodes, func(n command.Voter) bool { return n.Kind().Cluster })
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

// recovery returns the longest NodeKind.Recovery of all nodes.
func recovery(nodes []command.Voter) (longest time.Duration) {
	for _, n := range nodes {
		longest = max(longest, n.Kind().Recovery)
	}
	return longest
}

// join takes the nodes over, all or none.
func (l *Locker) join() error {
	waiters, servers := any(command.WaitersChannel(l.set.prefix)), command.NewServers()
	for i, n := range l.nodes {
		err := n.Join(&command.Membership{
			Clock: l.set.clock, Guard: l.guard, WaitersChannel: waiters, Unsafe: l.set.votesUnfit(n.Name()), Servers: servers,
		})
		if err != nil {
			for _, taken := range l.nodes[:i] {
				taken.Leave()
			}
			return invalid("node %s (%v): %w", n.Name(), n, err)
		}
	}
	return nil
}
