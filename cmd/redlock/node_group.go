package main

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

// nodeGroup is nodes of its own, without a Locker. `list` and `break` read through it what a Locker does
// not show: keys by a pattern, and tokens.
type nodeGroup struct {
	nodes  []command.Voter
	tagged bool // a node is a Redis Cluster, so fence counters have a hash tag
}

// openGroup opens the nodes. It refuses what redlock.Open refuses.
func openGroup(n cli.NodeList) (*nodeGroup, error) {
	configs := make([]pool.Config, len(n.URLs))
	for i, url := range n.URLs {
		cfg, err := pool.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("URL %d of %d: %w", i+1, len(n.URLs), err)
		}
		if n.TLS != nil && cfg.TLS != nil {
			cfg.TLS = n.TLS
			if cfg.Sentinels != nil {
				cfg.Sentinels.TLS = n.TLS
			}
		}
		configs[i] = cfg
	}
	if _, err := nodelist.Names(configs); err != nil {
		return nil, err
	}
	g, member := &nodeGroup{}, &command.Membership{Clock: clock.System(), Servers: command.NewServers()}
	for _, cfg := range configs {
		opened, err := pool.Open(cfg)
		if err != nil {
			g.close()
			return nil, err
		}
		node := command.FromPool(opened)
		_ = node.Join(member) // nothing else knows the node
		g.nodes = append(g.nodes, node)
		g.tagged = g.tagged || node.Kind().Cluster
	}
	return g, nil
}

func (g *nodeGroup) close() {
	for _, n := range g.nodes {
		_ = n.Close()
	}
}

func (g *nodeGroup) need() int { return quorum.Majority(len(g.nodes)) }

// groupOf returns the group of some nodes, as votes are sent to.
func groupOf(nodes ...command.Voter) *vote.Group {
	all := make([]command.Node, len(nodes))
	for i, n := range nodes {
		all[i] = n
	}
	return vote.NewGroup(&vote.Group{Nodes: all, Clock: clock.System()})
}

// ask sends a query for the values of keys to each node of a group. The answers count for no lock.
// On a Redis Cluster all keys must have one slot.
func ask(g *vote.Group, keys ...string) *broadcast {
	t := &command.LockArgs{}
	t.Set(keys, "")
	end := g.Clock.Now().Add(cli.ColdTimeout)
	return newBroadcast(g, func(r *command.Request) {
		command.NewInspect(r, t)
		r.Informational, r.NotAfter = true, end
	})
}

// keyAnswer is what one node answers about keys.
type keyAnswer struct {
	states []command.KeyState // in the order of the keys
	err    error
}

// Answers waits until every node has answered, or until ctx ends.
func (b *broadcast) answers(ctx context.Context) []keyAnswer {
	select {
	case <-b.done:
	case <-ctx.Done():
	}
	replies := b.snapshot()
	all := make([]keyAnswer, len(replies))
	for i, r := range replies {
		switch {
		case r == nil:
			all[i].err = redlock.ErrNodeTimeout
		case r.Outcome == command.Granted:
			all[i].states = r.KeyStates
		case r.Err != nil:
			all[i].err = r.Err
		default:
			all[i].err = fmt.Errorf("answer: %v", r.Outcome)
		}
	}
	return all
}

// noQuorum returns an error that matches redlock.ErrNoQuorum, with the errors of the nodes that
// failed. errs has one entry for each node, nil for those that answered.
func (g *nodeGroup) noQuorum(errs []error) error {
	var failed []error
	for i, err := range errs {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.nodes[i].Name(), err))
		}
	}
	return fmt.Errorf("%w: %w", redlock.ErrNoQuorum, oneline.Join(failed...))
}

// answered counts the nodes without an error.
func answered(errs []error) (n int) {
	for _, err := range errs {
		if err == nil {
			n++
		}
	}
	return n
}
