package pool

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// member is one master of a Cluster: a node of its own, with lanes that keep all the rules
// of a single master's, under the name of the whole.
type member struct {
	cluster *cluster
	address string
	node    *Node
	idle    clock.Instant // since when it has no slot; 0 while it has. Guarded by cluster.mu
}

// member finds or makes the one of an address. Called under mu, on a cluster that is not
// closed.
func (cl *cluster) member(address string) *member {
	m := cl.members[address]
	if m == nil {
		cfg := *cl.node.cfg
		cfg.Cluster, cfg.Address = nil, address
		m = &member{cluster: cl, address: address, node: &Node{cfg: &cfg, source: newOwnPool(&cfg)}}
		m.node.member = m
		m.node.start(cl.node.life)
		cl.members[address] = m
	}
	return m
}

// trouble is told that a connection ended, or could not be made: perhaps another one has
// the slots now. Without a Cluster it is nobody's business.
func (m *member) trouble(l *lane) {
	if m != nil {
		m.cluster.poke()
		m.forwardFrom(l)
	}
}

// forward takes what waits for the member to those who have the slots now. What was written
// already is sent on by its answer, or by the end of its connection.
func (m *member) forward() {
	for _, l := range m.node.lanes {
		m.forwardFrom(l)
	}
}

func (m *member) forwardFrom(l *lane) {
	var away []*wire.Command
	l.mu.Lock()
	if !l.closed {
		for _, c := range l.queue.popAll(nil) {
			if m.cluster.elsewhere(c, m, l.link != nil) {
				away = append(away, c)
			} else {
				l.queue.push(c)
			}
		}
		away = append(away, l.unparkIf(func(c *wire.Command) bool { return m.cluster.elsewhere(c, m, l.link != nil) })...)
	}
	l.mu.Unlock()
	for _, c := range away {
		m.cluster.resend(c)
	}
}

// elsewhere reports whether a command that waits for a member had better go to another one:
// not one that was asked of it by way of exception, unless there is no connection.
func (cl *cluster) elsewhere(c *wire.Command, m *member, up bool) bool {
	if !slotted(c) || c.Asking && up {
		return false
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	owner := cl.owner(c) // nobody else can have what waits for a slot without an owner
	return !cl.closed && owner != nil && owner != m
}

// slotted reports whether a command concerns whoever has a slot, and not one master.
func slotted(c *wire.Command) bool { return len(c.Keys) > 0 && c.Op != wire.Examine }

// letGoError is why a member takes no command any more: it was let go, and the Cluster has
// another one for what concerns a slot. A command may have been on its way to the member.
type letGoError struct{ *cluster }

func (letGoError) Error() string { return errNoMaster.Error() }

// handBack has a command go where it belongs now, and ends one that concerned the member.
func (cl letGoError) handBack(c *wire.Command) {
	if slotted(c) {
		cl.resend(c)
		return
	}
	c.Fail(errNoMaster)
}

// leave hands on what waits for the member, and ends it. It has no slot, and so nothing on it
// is anybody's lock. But an undo that it has not answered may concern a key that went with
// the slot: its connections end before the lanes are closed, so that such undos are kept as
// for a next connection.
func (m *member) leave() {
	m.vacate() // before the keepers end, which fail what is queued
	m.stop()
	m.vacate()         // of undos that were not answered
	_ = m.node.Close() // redigo's pool has nothing to say
}

// stop ends the connections, and waits for their keepers.
func (m *member) stop() {
	m.node.end()
	for _, l := range m.node.lanes {
		l.mu.Lock()
		k := l.link
		l.mu.Unlock()
		if k != nil {
			k.fail(errNoMaster)
		}
	}
	m.node.keep.Wait()
}

// vacate hands back what is queued, also undos that are to be repeated. Commands that arrive
// later are never queued: they are handed back at once.
func (m *member) vacate() {
	var left []*wire.Command
	for _, l := range m.node.lanes {
		l.mu.Lock()
		l.letGo = true
		left = append(l.queue.popAll(left), l.endRepeats()...)
		l.mu.Unlock()
	}
	for _, c := range left {
		letGoError{m.cluster}.handBack(c)
	}
}

// label is what findings call a node.
func (n *Node) label() string {
	if n.member == nil {
		return n.cfg.Name
	}
	return n.cfg.Name + " at " + n.cfg.Address
}

// findings are what there is to say of a server, by its facts. A member of a Cluster is fit
// where it is the node's.
func (n *Node) findings(f wire.Facts) []wire.Finding {
	clustered := f.Mode == "cluster"
	if n.member != nil && clustered {
		f.Mode = "standalone"
	}
	all := findings(n.label(), n.cfg.Database, f)
	if n.member != nil && !clustered && f.Unread == "" {
		all = append(all, wire.Finding{Grade: wire.Error, Code: wire.CodeCluster, Text: n.label() +
			" is no member of a Redis Cluster any more: give its address as that of a single master"})
	}
	return all
}
