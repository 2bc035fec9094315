package pool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// shard is one master of a Cluster: a node of its own, whose pipelines keep all the rules of a
// single master, under the name of the whole Cluster.
type shard struct {
	single
	cluster *cluster
	address string
}

// shardOfLocked returns the shard of an address that the slot map has, and makes it if necessary. The
// cluster must not be closed.
func (cl *cluster) shardOfLocked(address string) *shard {
	sh := cl.shards[address]
	if sh == nil {
		// A copy with its own address. Everything else, also the name in errors and votes, is that
		// of the Cluster.
		cfg := cl.node.cfg.at(address)
		cfg.Cluster = nil
		n := newNode(cfg)
		sh = &shard{single: single{n}, cluster: cl, address: address}
		n.settings.Unreachable = sh.unreachable
		n.kind, n.whole, n.label = sh, cl.node, cfg.Name+" at "+address
		// The shard ends with the node at the latest. start only starts goroutines, so it may be
		// called under cluster.mu.
		sh.node.start(cl.node.life)
		cl.shards[address] = sh
	}
	return sh
}

// unreachable adds which member named the address, unless the configuration has it too.
func (sh *shard) unreachable(err error) error {
	sh.cluster.mu.Lock()
	by := sh.cluster.slots.namedBy(sh.address)
	sh.cluster.mu.Unlock()
	if by == "" || slices.Contains(sh.cluster.node.cfg.Cluster, sh.address) { // by nobody if it is being retired
		return err
	}
	return namedError(err, "its Cluster ("+by+")", sh.address, "set cluster-announce-ip and cluster-announce-port on that server")
}

// connEnded queries the slot map: another master may have the slots now.
func (sh *shard) connEnded(pl *pipeline) {
	sh.cluster.wake.Set()
	sh.moveQueuedFrom(pl)
}

// checkReply names the server that sent a redirect without a host.
func (sh *shard) checkReply(_ *command.Command, _ string, r command.Reply) command.Reply {
	var se *resp.ServerError
	if errors.As(r.Err, &se) && (se.Code == "MOVED" || se.Code == "ASK") && strings.Contains(se.Text, " "+noHost+":") {
		r.Err = fmt.Errorf("pool: %w: %s names no host: %s", r.Err, sh.address, setHostname)
	}
	return r
}

// moveQueued moves the queued commands of the shard to the shards that have the slots now. A
// command that was written is redirected by its reply, or when its connection ends.
func (sh *shard) moveQueued() {
	sh.moveQueuedFrom(sh.node.pipeline)
}

// moveQueuedFrom moves the queued and parked commands of one pipeline. They are routed again
// after the mutex is released: dispatch takes the mutex of the cluster and of another pipeline, and
// two pipelines that move commands to each other would otherwise deadlock.
func (sh *shard) moveQueuedFrom(pl *pipeline) {
	up := pl.up()
	for _, c := range pl.withdraw(func(c *command.Command) bool { return sh.cluster.belongsElsewhere(c, sh, up) }) {
		sh.cluster.redispatch(c)
	}
}

// belongsElsewhere reports whether a queued command should go to another shard. A command behind
// ASKING should not, unless there is no connection.
func (cl *cluster) belongsElsewhere(c *command.Command, sh *shard, up bool) bool {
	if !slotted(c) || c.Asking() && up {
		return false
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	// cluster.mu is taken under the mutex of a queue here, as the order of mutexes allows.
	owner := cl.slots.target(c.Request) // without an owner no other shard can serve the slot
	return !cl.closed && owner != "" && cl.shards[owner] != sh
}

// slotted reports whether a command is for the owner of a slot, and not for one server.
func slotted(c *command.Command) bool { return len(c.Keys) > 0 }

// errDrained reports that a retired shard takes no commands. The Cluster has another shard for commands
// of a slot.
var errDrained = fmt.Errorf("%w", errNoMaster)

// handBack routes a command of a retired shard again, and ends one that was for the server itself.
func (cl *cluster) handBack(c *command.Command) {
	if slotted(c) {
		cl.redispatch(c)
		return
	}
	c.Fail(errNoMaster)
}

// retire moves the queued commands of the shard to others, and closes it. It has no slot, so no
// key on it belongs to a lock. But an undo without an answer may concern a key that moved with
// the slot. So the connections end before the pipelines are closed, and such undos are kept as
// for a next connection.
func (sh *shard) retire() {
	sh.drain() // before the goroutines end, which fail what is queued
	sh.end()
	sh.drain()          // the undos without an answer
	_ = sh.node.Close() // it returns no error
}

// end ends the connections, and waits for their goroutines.
func (sh *shard) end() {
	sh.node.stop() // before the connection is looked for: see pipeline.serve
	sh.node.pipeline.end(errNoMaster)
	sh.node.workers.Wait()
}

// drain hands back the queued commands, including undos that would be repeated. Later commands
// are never queued: they are handed back at once. What was to be swept is swept where the slots are now.
func (sh *shard) drain() {
	for _, c := range sh.node.pipeline.drain(sh.cluster.handBack) {
		sh.cluster.handBack(c)
	}
}

// severalSlots returns false. So a lock's script cannot read a marker beside the lock's key.
func (*shard) severalSlots() bool { return false }

// faults takes a member of a Cluster for a single master, and reports one that is none.
func (sh *shard) faults(f command.Facts) []command.Fault {
	member := f.Mode == "cluster"
	if member {
		f.Mode = "standalone"
	}
	all := sh.single.faults(f)
	if !member && f.Unread == "" {
		all = append(all, command.Fault{Code: command.CodeCluster, Text: sh.node.label +
			" is no longer a member of a Redis Cluster: give its address as that of a single master"})
	}
	return all
}
