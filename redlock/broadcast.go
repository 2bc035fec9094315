package redlock

import (
	"sync"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// broadcast sends a request to every node and collects the answers, without a vote.
type broadcast struct {
	reqs []wire.Request
	cmds []wire.Command
	done chan struct{} // closed when every node has answered

	mu      sync.Mutex // guards the fields below; no callback runs under it
	replies []*wire.Reply
	pending int
}

// queryAll submits to each node the request that fill makes for it.
func (l *Locker) queryAll(fill func(node int, r *wire.Request)) *broadcast {
	n := len(l.nodes)
	q := &broadcast{
		reqs: make([]wire.Request, n), cmds: make([]wire.Command, n), done: make(chan struct{}),
		replies: make([]*wire.Reply, n), pending: n,
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
func (q *broadcast) Answer(c *wire.Command, r wire.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.replies[c.Node] = &r
	if q.pending--; q.pending == 0 {
		close(q.done)
	}
}

// found returns a copy of the answers so far, nil for a node that has not answered.
func (q *broadcast) found() []*wire.Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]*wire.Reply(nil), q.replies...)
}
