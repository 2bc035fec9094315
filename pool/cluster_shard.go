package pool

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// shard is one master of a Cluster: a node of its own, with lanes that keep all the rules
// of a single master's, under the name of the whole.
type shard struct {
	cluster       *cluster
	address       string
	node          *Node
	slotlessSince clock.Instant // since when it has no slot; 0 while it has. Guarded by cluster.mu
}

// shardOf finds or makes the one of an address. Called under mu, on a cluster that is not
// closed.
func (cl *cluster) shardOf(address string) *shard {
	m := cl.shards[address]
	if m == nil {
		cfg := *cl.node.cfg
		cfg.Cluster, cfg.Address = nil, address
		m = &shard{cluster: cl, address: address, node: &Node{cfg: &cfg, dialer: newOwnPool(&cfg)}}
		m.node.shard = m
		m.node.start(cl.node.life)
		cl.shards[address] = m
	}
	return m
}

// connLost is told that a connection ended, or could not be made: perhaps another one has
// the slots now. Without a Cluster it is nobody's business.
func (sh *shard) connLost(l *pipeline) {
	if sh != nil {
		sh.cluster.wakeUp()
		sh.moveQueuedFrom(l)
	}
}

// moveQueued takes what waits for the member to those who have the slots now. What was written
// already is sent on by its answer, or by the end of its connection.
func (sh *shard) moveQueued() {
	for _, l := range sh.node.pipelines {
		sh.moveQueuedFrom(l)
	}
}

func (sh *shard) moveQueuedFrom(l *pipeline) {
	var away []*wire.Command
	l.mu.Lock()
	if !l.closed {
		for _, c := range l.queue.popAll(nil) {
			if sh.cluster.belongsElsewhere(c, sh, l.conn != nil) {
				away = append(away, c)
			} else {
				l.queue.push(c)
			}
		}
		away = append(away, l.unparkIfLocked(func(c *wire.Command) bool { return sh.cluster.belongsElsewhere(c, sh, l.conn != nil) })...)
	}
	l.mu.Unlock()
	for _, c := range away {
		sh.cluster.resend(c)
	}
}

// belongsElsewhere reports whether a command that waits for a member had better go to another one:
// not one that was asked of it by way of exception, unless there is no connection.
func (cl *cluster) belongsElsewhere(c *wire.Command, m *shard, up bool) bool {
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

// drainedError is why a member takes no command any more: it was let go, and the Cluster has
// another one for what concerns a slot. A command may have been on its way to the member.
type drainedError struct{ *cluster }

func (drainedError) Error() string { return errNoMaster.Error() }

// handBack has a command go where it belongs now, and ends one that concerned the member.
func (cl drainedError) handBack(c *wire.Command) {
	if slotted(c) {
		cl.resend(c)
		return
	}
	c.Fail(errNoMaster)
}

// retire hands on what waits for the member, and ends it. It has no slot, and so nothing on it
// is anybody's lock. But an undo that it has not answered may concern a key that went with
// the slot: its connections end before the lanes are closed, so that such undos are kept as
// for a next connection.
func (sh *shard) retire() {
	sh.drain() // before the keepers end, which fail what is queued
	sh.stop()
	sh.drain()          // of undos that were not answered
	_ = sh.node.Close() // redigo's pool has nothing to say
}

// stop ends the connections, and waits for their keepers.
func (sh *shard) stop() {
	sh.node.stop()
	for _, l := range sh.node.pipelines {
		l.mu.Lock()
		k := l.conn
		l.mu.Unlock()
		if k != nil {
			k.fail(errNoMaster)
		}
	}
	sh.node.workers.Wait()
}

// drain hands back what is queued, also undos that are to be repeated. Commands that arrive
// later are never queued: they are handed back at once.
func (sh *shard) drain() {
	var left []*wire.Command
	for _, l := range sh.node.pipelines {
		l.mu.Lock()
		l.drained = true
		left = append(l.queue.popAll(left), l.cancelRetriesLocked()...)
		l.mu.Unlock()
	}
	for _, c := range left {
		drainedError{sh.cluster}.handBack(c)
	}
}

// label is what findings call a node.
func (n *Node) label() string {
	if n.shard == nil {
		return n.cfg.Name
	}
	return n.cfg.Name + " at " + n.cfg.Address
}

// findings are what there is to say of a server, by its facts. A member of a Cluster is fit
// where it is the node's.
func (n *Node) findings(f wire.Facts) []wire.Finding {
	clustered := f.Mode == "cluster"
	if n.shard != nil && clustered {
		f.Mode = "standalone"
	}
	all := findings(n.label(), n.cfg.Database, f)
	if n.shard != nil && !clustered && f.Unread == "" {
		all = append(all, wire.Finding{Grade: wire.Error, Code: wire.CodeCluster, Text: n.label() +
			" is no member of a Redis Cluster any more: give its address as that of a single master"})
	}
	return all
}
