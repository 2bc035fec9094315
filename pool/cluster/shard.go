package cluster

import (
	"fmt"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/session"
)

// router is what a shard asks the cluster that it is a part of.
type router interface {
	whoNamed(address string) string                                   // who named an address; empty if the configuration has it, or if it is being retired
	queryMap()                                                        // the slot map may be old
	goesElsewhere(sh *shard, c *command.Command) bool                 // another shard has the command's slot
	redispatch(c *command.Command)                                    // routes a command again
	mayRedirectTo(address string) bool                                // a command may be redirected there
	redirected(c *command.Command, from string, r redirection) *shard // where a redirected command goes; nil if the node is closed
}

// shard is one master of a Cluster. It keeps all the rules of a single master, under the name of the whole Cluster.
type shard struct {
	node.Master
	router  router
	address string
}

// newShard makes the shard of an address, and begins to dial. It only starts goroutines, so it may be called under the cluster's mutex.
func newShard(r router, p *node.Parts, address string) *shard {
	sh := &shard{router: r, address: address}
	// Everything but the address, also the name in errors and votes, is that of the Cluster.
	settings := p.Settings.At(address)
	settings.Unreachable = sh.unreachable
	if !strings.Contains(p.Name, address) { // otherwise the name says it
		settings.Where = " to " + node.MasterURL(settings.TLS != nil, settings.Username, address, 0)
	}
	cfg := p.ServerConfig(settings)
	cfg.Label, cfg.Settings, cfg.OneSlot = p.Name+" at "+address, settings, true
	cfg.Redirect, cfg.Ended = sh.redirect, sh.connEnded
	cfg.Faults = func(f command.Facts) []command.Fault { return faults(cfg.Label, f) }
	sh.Master = node.NewMaster(p, cfg)
	sh.Start()
	return sh
}

// unreachable adds which member named the address, unless the configuration has it too.
func (sh *shard) unreachable(err error) error {
	by := sh.router.whoNamed(sh.address)
	if by == "" {
		return err
	}
	return named.By(err, "its Cluster ("+by+")", sh.address, "set cluster-announce-ip and cluster-announce-port on that server")
}

// connEnded queries the slot map: another master may have the slots now.
func (sh *shard) connEnded() {
	sh.router.queryMap()
	sh.moveQueued()
}

// moveQueued moves the queued and parked commands of the shard to the shards that have the slots now. A
// command that was written is redirected by its reply, or when its connection ends. They are routed again
// without a mutex: dispatch takes the mutexes of the cluster and of another server, and
// two servers that move commands to each other would otherwise deadlock.
func (sh *shard) moveQueued() {
	for _, c := range sh.Withdraw(sh.belongsElsewhere) {
		sh.router.redispatch(c)
	}
}

// belongsElsewhere reports whether a queued command should go to another shard. A command behind
// ASKING should not, unless there is no connection.
func (sh *shard) belongsElsewhere(c *command.Command, up bool) bool {
	return slotted(c) && (!c.Asking() || !up) && sh.router.goesElsewhere(sh, c)
}

// slotted reports whether a command is for the owner of a slot, and not for one server.
func slotted(c *command.Command) bool { return len(c.Keys) > 0 }

// faults takes a member of a Cluster for a single master, and reports one that is none.
func faults(label string, f command.Facts) []command.Fault {
	member := f.Mode == "cluster"
	if member {
		f.Mode = "standalone"
	}
	all := session.Faults(label, 0, f)
	if !member && f.Unread == "" {
		all = append(all, command.Fault{Code: command.CodeCluster, Text: label +
			" is no longer a member of a Redis Cluster: give its address as that of a single master"})
	}
	return all
}

// maxRedirects bounds how often a command is redirected: shards with different slot maps may
// redirect it to each other.
const maxRedirects = 8

// redirect moves a command to another shard if its server did not execute it because that shard
// has the slot (MOVED) or, while the slot is being moved, the key (ASK). It reports whether it
// has, or else what is shown in place of the error, or nil. It does not redirect a command that was cancelled meanwhile: its undo
// is behind it on this connection and must not be overtaken. Only the reader calls it.
func (sh *shard) redirect(c *command.Command, err error) (taken bool, shown error) {
	// Without a host in the error, the slot is on the same host at another port. The text is the server's own: a label of
	// a host name may have the form of a token.
	to := parseRedirection(err.Error(), sh.address)
	// After MOVED the other slots may have moved as well. A probe of CLUSTERDOWN shows nothing new.
	if code := resp.Code(err); code == "MOVED" || code == "CLUSTERDOWN" && c.Retries == 0 {
		sh.router.queryMap()
	}
	if to.address == "" {
		return false, sh.withoutHost(err)
	}
	// Each condition means that the error becomes the command's answer: the limit, a Cluster that
	// names ever more addresses, or a command that was cancelled. UnmarkForRedirect comes last
	// because it changes the command.
	if c.Redirects >= maxRedirects || !sh.router.mayRedirectTo(to.address) || !c.UnmarkForRedirect() {
		return false, nil
	}
	// The destination is recorded before the command is queued there, so every later undo follows
	// it. An undo between the two steps may be queued first. Its acquire was cancelled before that,
	// and is then never written.
	next := sh.router.redirected(c, sh.address, to)
	if next == nil {
		c.Fail(server.ErrClosed)
		return true, nil
	}
	if c.Op.Undoes() {
		sh.PassedOn(c)
	}
	c.Redirects++
	c.SetAsking(to.asking)
	next.Requeue(c) // from here on the other shard owns the command
	return true, nil
}

// withoutHost names the server that sent a redirect without a host. It returns nil for any other error.
func (sh *shard) withoutHost(err error) error {
	code, clean := resp.Code(err), resp.Clean(err)
	if code != "MOVED" && code != "ASK" || !strings.Contains(clean.Error(), " "+named.NoHost+":") {
		return nil
	}
	return fmt.Errorf("pool: %w: %s names no host: %s", clean, sh.address, setHostname)
}
