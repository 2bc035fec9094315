package redlock

import (
	"sync"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// inquiry asks every node something and collects what they say, without a vote.
type inquiry struct {
	reqs []wire.Request
	cmds []wire.Command
	all  chan struct{} // closed when every node has answered

	mu      sync.Mutex // guards what follows; nobody is called under it
	replies []*wire.Reply
	left    int
}

// inquire submits what fill makes for each node.
func (l *Locker) inquire(fill func(node int, r *wire.Request)) *inquiry {
	n := len(l.nodes)
	q := &inquiry{
		reqs: make([]wire.Request, n), cmds: make([]wire.Command, n), all: make(chan struct{}),
		replies: make([]*wire.Reply, n), left: n,
	}
	for i, node := range l.nodes {
		r, c := &q.reqs[i], &q.cmds[i]
		fill(i, r)
		r.NodeSet = l.fleet
		c.Request, c.Node, c.To = r, i, q
		node.Submit(c)
	}
	return q
}

// Answer takes one node's answer.
func (q *inquiry) Answer(c *wire.Command, r wire.Reply) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.replies[c.Node] = &r
	if q.left--; q.left == 0 {
		close(q.all)
	}
}

// found is what is there now, nil for a node that has not answered; later answers
// change nothing of it.
func (q *inquiry) found() []*wire.Reply {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]*wire.Reply(nil), q.replies...)
}
