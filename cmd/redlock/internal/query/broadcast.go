package query

import (
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Broadcast is a request to every node whose answers are collected without a vote.
type Broadcast struct {
	reqs []command.Request
	cmds []command.Command
	done chan struct{} // closed when every node has answered

	mu      sync.Mutex // guards the fields below; nothing is called under it
	replies []*command.Reply
	pending int
}

// newBroadcast submits to each node the request that fill makes.
func newBroadcast(g *vote.Group, fill func(r *command.Request)) *Broadcast {
	n := len(g.Nodes)
	b := &Broadcast{
		reqs: make([]command.Request, n), cmds: make([]command.Command, n), done: make(chan struct{}),
		replies: make([]*command.Reply, n), pending: n,
	}
	for i, node := range g.Nodes {
		r, c := &b.reqs[i], &b.cmds[i]
		fill(r)
		c.Fill(r, i, (*collector)(b))
		command.Submit(node, c)
	}
	return b
}

// snapshot returns a copy of the answers so far, nil for a node that has not answered.
func (b *Broadcast) snapshot() []*command.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*command.Reply(nil), b.replies...)
}

// collector is the nodes' view of a broadcast.
type collector Broadcast

// Answer records one node's answer.
func (b *collector) Answer(c *command.Command, r command.Reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replies[c.Node] = &r
	if b.pending--; b.pending == 0 {
		close(b.done)
	}
}
