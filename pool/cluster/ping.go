package cluster

import (
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
)

// pingAll answers a Ping when all masters have, because a lock may be on any of them.
func pingAll(cl *clusterNode, c *command.Command) error {
	all, unserved, why := cl.masters()
	if err := unassigned(cl.parts.Name, unserved, why); err != nil {
		return err
	}
	// The command itself is never written: the copies below are. If Cancel came first, MarkSent
	// fails and no copy is sent. A later Cancel reports that the command may have left the process.
	if !c.MarkSent() {
		return command.ErrGivenUp
	}
	// left is complete before the first submit, because a master may answer before the next. If one does not
	// take its copy, left never becomes 0, and the submitter answers c.
	p := &pings{command: c, left: len(all), reply: command.Reply{Outcome: command.Granted}}
	for _, sh := range all {
		// Each master gets a copy, because a command can be in one queue only and is answered once.
		each := &command.Command{Request: c.Request, Node: c.Node, To: p}
		if err := sh.Submit(each, nil); err != nil {
			return err
		}
	}
	return nil
}

// pings counts the answers to pingAll.
type pings struct {
	command *command.Command

	mu    sync.Mutex // guards what follows; nothing is called under it
	left  int
	reply command.Reply // the first answer that is not a grant
}

// Answer receives the answer of one master. It answers the command after the mutex is released.
func (p *pings) Answer(_ *command.Command, r command.Reply) {
	p.mu.Lock()
	p.left--
	// The first fault is kept, and later grants do not replace it.
	if p.reply.Outcome == command.Granted {
		p.reply = r
	}
	r, last := p.reply, p.left == 0
	p.mu.Unlock()
	if last {
		// The masters' pings were sent apart from each other, so "not sent" of one says nothing
		// about the whole command.
		r.NotSent = false
		p.command.Answer(r)
	}
}
