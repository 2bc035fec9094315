package query

import (
	"context"
	"fmt"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/nodelist"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// Group is nodes of its own, without a Locker. `list` and `break` read through it what a Locker does
// not show: keys by a pattern, and tokens.
type Group struct {
	Nodes  []command.Voter
	Tagged bool // a node is a Redis Cluster, so fence counters have a hash tag
}

// Open opens the nodes. It refuses what redlock.Open refuses.
func Open(n cli.NodeList) (*Group, error) {
	configs, err := n.Configs()
	if err != nil {
		return nil, err
	}
	if _, err := nodelist.Names(configs); err != nil {
		return nil, err
	}
	g, member := &Group{}, &command.Membership{Clock: clock.System(), Servers: command.NewServers()}
	for _, cfg := range configs {
		opened, err := pool.Open(cfg)
		if err != nil {
			g.Close()
			return nil, err
		}
		node := command.FromPool(opened)
		_ = node.Join(member) // nothing else knows the node
		g.Nodes = append(g.Nodes, node)
		g.Tagged = g.Tagged || node.Kind().Cluster
	}
	return g, nil
}

// Close closes the nodes.
func (g *Group) Close() {
	for _, n := range g.Nodes {
		_ = n.Close()
	}
}

// Need returns how many nodes are a quorum.
func (g *Group) Need() int { return quorum.Majority(len(g.Nodes)) }

// VoteGroup returns the group of some nodes, as votes are sent to.
func VoteGroup(nodes ...command.Voter) *vote.Group {
	all := make([]command.Node, len(nodes))
	for i, n := range nodes {
		all[i] = n
	}
	return vote.NewGroup(&vote.Group{Nodes: all, Clock: clock.System()})
}

// Ask sends a query for the values of keys to each node of a group. The answers count for no lock.
// On a Redis Cluster all keys must have one slot.
func Ask(g *vote.Group, keys ...string) *Broadcast {
	t := &command.LockArgs{}
	t.Set(keys, "")
	end := g.Clock.Now().Add(cli.ColdTimeout)
	return newBroadcast(g, func(r *command.Request) {
		command.NewInspect(r, t)
		r.Informational, r.NotAfter = true, end
	})
}

// Answer is what one node answers about keys.
type Answer struct {
	States []command.KeyState // in the order of the keys
	Err    error
}

// Answers waits until every node has answered, or until ctx ends.
func (b *Broadcast) Answers(ctx context.Context) []Answer {
	select {
	case <-b.done:
	case <-ctx.Done():
	}
	replies := b.snapshot()
	all := make([]Answer, len(replies))
	for i, r := range replies {
		switch {
		case r == nil:
			all[i].Err = redlock.ErrNodeTimeout
		case r.Outcome == command.Granted:
			all[i].States = r.KeyStates
		case r.Err != nil:
			all[i].Err = r.Err
		default:
			all[i].Err = fmt.Errorf("answer: %v", r.Outcome)
		}
	}
	return all
}

// Quorum returns an error that matches redlock.ErrNoQuorum unless a quorum has answered, with the errors of the
// nodes that failed. errs has one entry for each node, nil for those that answered.
func (g *Group) Quorum(errs []error) error {
	if Answered(errs) >= g.Need() {
		return nil
	}
	var failed []error
	for i, err := range errs {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.Nodes[i].Name(), err))
		}
	}
	return fmt.Errorf("%w: %w", redlock.ErrNoQuorum, oneline.Join(failed...))
}

// Answered counts the nodes without an error.
func Answered(errs []error) (n int) {
	for _, err := range errs {
		if err == nil {
			n++
		}
	}
	return n
}
