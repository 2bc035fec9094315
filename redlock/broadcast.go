package redlock

import (
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
)

// broadcast sends a request to every node and collects the answers, without a vote.
type broadcast struct {
	reqs []command.Request
	cmds []command.Command
	done chan struct{} // closed when every node has answered

	mu      sync.Mutex // guards the fields below; no callback runs under it
	replies []*command.Reply
	pending int
}

// queryAll submits to each node the request that fill makes for it.
func (l *Locker) queryAll(fill func(node int, r *command.Request)) *broadcast {
	n := len(l.nodes)
	q := &broadcast{
		reqs: make([]command.Request, n), cmds: make([]command.Command, n), done: make(chan struct{}),
		replies: make([]*command.Reply, n), pending: n,
	}
	for i, node := range l.nodes {
		r, c := &q.reqs[i], &q.cmds[i]
		fill(i, r)
		r.NodeSet = l.nodeSet
		c.Request, c.Node, c.To = r, i, q
		node.Submit(c)
	}
	return q
}

// Answer records one node's answer.
func (q *broadcast) Answer(c *command.Command, r command.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.replies[c.Node] = &r
	if q.pending--; q.pending == 0 {
		close(q.done)
	}
}

// found returns a copy of the answers so far, nil for a node that has not answered.
func (q *broadcast) found() []*command.Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]*command.Reply(nil), q.replies...)
}
