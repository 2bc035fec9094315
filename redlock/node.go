package redlock

import (
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
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

// newGroup makes the group of nodes whose votes decide for the Locker.
func newGroup(l *Locker, nodes []command.Node) *vote.Group {
	g := &vote.Group{Nodes: nodes, Clock: l.set.clock, Timers: l.timers}
	if l.reporter != nil {
		g.OnAnswer = l.reporter.vote
	}
	return vote.NewGroup(g)
}

// newWaitTable makes the table of the Locker's waiters and holders.
func newWaitTable(l *Locker) *waiting.Table {
	return waiting.NewTable(waiting.Config{
		Nodes: l.group.Nodes, Clock: l.set.clock, Timers: l.timers, Prefix: l.set.prefix, Backoff: l.set.backoff,
		PollTimeout: l.set.readTimeout(), OutageLeft: quarantineLeft, Closing: l.registry.closing, ErrClosed: ErrClosed,
	})
}
