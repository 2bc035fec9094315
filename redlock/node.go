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
