package pool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/server"
)

// masters returns the shards with slots, ordered by address, and the number of slots without one.
func (cl *cluster) masters() (all []*shard, unserved int) {
	cl.mu.Lock()
	// The result is a copy, so the caller uses the shards without the mutex. Under it no shard may
	// be called: it takes its own mutex first.
	defer cl.mu.Unlock()
	addresses, unserved := cl.slots.masters()
	for _, address := range addresses {
		all = append(all, cl.shards[address])
	}
	return all, unserved
}

// whyUnserved returns why slots have no master, and what to do.
func (cl *cluster) whyUnserved() string {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.slots.whyUnserved()
}

// pingAll answers a Ping when all masters have, because a lock may be on any of them.
func (cl *cluster) pingAll(c *command.Command) error {
	all, unserved := cl.masters()
	if unserved > 0 {
		// A lock in an unassigned slot could not be acquired, so the node is not healthy as a
		// whole.
		return fmt.Errorf("pool: %w: %s: %d of %d slots are unassigned: %s", command.ErrUnfit, cl.node.cfg.Name, unserved, command.Slots,
			cl.whyUnserved())
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

// servers returns all masters, once there is a slot map.
func (cl *cluster) servers(ctx context.Context) (door.Servers, error) {
	if err := cl.waitTopology(ctx); err != nil {
		return door.Servers{}, err
	}
	all, unserved := cl.masters()
	s := door.Servers{Cluster: true, Unserved: unserved, Gap: cl.whyUnserved()}
	for _, sh := range all {
		s.All = append(s.All, sh.master)
	}
	return s, nil
}

// state adds the counters of the present shards. The counters of shards that have left the Cluster are lost. It returns the reason of the
// first of the masters that does not vote for its slots.
func (cl *cluster) state(s *Stats) (notVoting error) {
	masters, _ := cl.masters()
	cl.mu.Lock()
	// Commands that wait for the first slot map are queued at no server yet.
	s.Masters, s.Redirects, s.Queued = len(masters), cl.redirects, len(cl.unrouted)
	all := slices.Collect(maps.Values(cl.shards))
	closed, mapped, down := cl.closed, cl.hasTopology, cl.down
	cl.mu.Unlock()
	// Without the mutex: a server takes its own, under which cl.mu may be taken.
	for _, sh := range all {
		_ = sh.state(s)
	}
	switch {
	case closed:
		return ErrClosed
	case !mapped && down != nil:
		return down
	case !mapped:
		return server.ErrConnecting
	}
	for _, sh := range masters {
		if err := sh.WhyNotVoting(); err != nil {
			return err
		}
	}
	return nil
}
