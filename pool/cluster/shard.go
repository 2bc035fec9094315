package cluster

import (
	"slices"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/session"
)

// shard is one master of a Cluster. It keeps all the rules of a single master, under the name of the whole Cluster.
type shard struct {
	node.Master
	cluster *cluster
	address string
	label   string // its name in findings
}

// newShard makes the shard of an address, and begins to dial. It only starts goroutines, so it may be called under cluster.mu.
func newShard(cl *cluster, address string) *shard {
	sh := &shard{cluster: cl, address: address, label: cl.base.Name + " at " + address}
	// Everything but the address, also the name in errors and votes, is that of the Cluster.
	settings := cl.base.Settings.At(address)
	settings.Unreachable = sh.unreachable
	settings.Where = " to " + node.MasterURL(settings.TLS != nil, settings.Username, address, 0)
	cfg := cl.base.ServerConfig(settings)
	cfg.Label, cfg.Settings, cfg.OneSlot = sh.label, settings, true
	cfg.Redirect, cfg.Faults, cfg.Ended = sh.redirect, sh.faults, sh.connEnded
	sh.Master = node.NewMaster(cl.base, cfg)
	sh.Start()
	return sh
}

// unreachable adds which member named the address, unless the configuration has it too.
func (sh *shard) unreachable(err error) error {
	sh.cluster.mu.Lock()
	by := sh.cluster.slots.namedBy(sh.address)
	sh.cluster.mu.Unlock()
	if by == "" || slices.Contains(sh.cluster.of.Addresses, sh.address) { // by nobody if it is being retired
		return err
	}
	return node.NamedError(err, "its Cluster ("+by+")", sh.address, "set cluster-announce-ip and cluster-announce-port on that server")
}

// connEnded queries the slot map: another master may have the slots now.
func (sh *shard) connEnded() {
	sh.cluster.refresh.wake.Set()
	sh.moveQueued()
}

// moveQueued moves the queued and parked commands of the shard to the shards that have the slots now. A
// command that was written is redirected by its reply, or when its connection ends. They are routed again
// without a mutex: dispatch takes the mutexes of the cluster and of another server, and
// two servers that move commands to each other would otherwise deadlock.
func (sh *shard) moveQueued() {
	for _, c := range sh.Withdraw(sh.belongsElsewhere) {
		sh.cluster.redispatch(c)
	}
}

// belongsElsewhere reports whether a queued command should go to another shard. A command behind
// ASKING should not, unless there is no connection.
func (sh *shard) belongsElsewhere(c *command.Command, up bool) bool {
	if !slotted(c) || c.Asking() && up {
		return false
	}
	cl := sh.cluster
	cl.mu.Lock() // under the mutex of a queue, as the order of mutexes allows
	defer cl.mu.Unlock()
	owner := cl.slots.target(c.Request) // without an owner no other shard can serve the slot
	return !cl.closed && owner != "" && cl.shards[owner] != sh
}

// slotted reports whether a command is for the owner of a slot, and not for one server.
func slotted(c *command.Command) bool { return len(c.Keys) > 0 }

// faults takes a member of a Cluster for a single master, and reports one that is none.
func (sh *shard) faults(f command.Facts) []command.Fault {
	member := f.Mode == "cluster"
	if member {
		f.Mode = "standalone"
	}
	all := session.Faults(sh.label, sh.cluster.base.Settings.Database, f)
	if !member && f.Unread == "" {
		all = append(all, command.Fault{Code: command.CodeCluster, Text: sh.label +
			" is no longer a member of a Redis Cluster: give its address as that of a single master"})
	}
	return all
}
