package pool

import (
	"net"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
)

// maxRedirects bounds how often a command is redirected: shards with different slot maps may
// redirect it to each other.
const maxRedirects = 8

// redirect moves a command to another shard if its server did not execute it because that shard
// has the slot (MOVED) or, while the slot is being moved, the key (ASK). It reports whether it
// has. It does not redirect a command that was cancelled meanwhile: its undo is behind it on this
// connection and must not be overtaken. Only the reader calls it.
func (pc *pipeConn) redirect(c *command.Command, err error) bool {
	m := pc.pipeline.node.shard
	if m == nil || err == nil {
		return false
	}
	asking, slot, address := redirection(serverError(err).Error(), m.address)
	if address == "" {
		if answeredBy(serverError(err), "CLUSTERDOWN") && c.Retries == 0 { // a probe shows nothing new
			m.cluster.wakeUp()
		}
		return false
	}
	if c.Redirects >= maxRedirects || !m.cluster.knowsOrHasRoomFor(address) || !c.UnmarkForRedirect() {
		return false
	}
	to := m.cluster.onMoved(c, asking, slot, address)
	if to == nil {
		c.Fail(ErrClosed)
		return true
	}
	if c.Op.Undoes() { // and repeat it here while its acquire may still be executed (docs/dev/rules.md rule 6)
		pc.pipeline.keep(c, false, pc.nothingToUndo(c))
	}
	probe := c.Op.Undoes() && c.Retries > 0
	c.Redirects, c.Asking = c.Redirects+1, asking
	to.node.pipelineOf(c).requeue(c)
	if probe { // the server takes commands again; those that fail elsewhere are parked there
		pc.pipeline.sendParked()
	}
	return true
}

// redirection parses "MOVED slot host:port" and ASK from the member at address from. Without a
// host it is the same one. The address is empty if the text is neither.
func redirection(text, from string) (asking bool, slot int, address string) {
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return false, 0, ""
	}
	slot, err := strconv.Atoi(words[1])
	colon := strings.LastIndex(words[2], ":") // an IPv6 address has no brackets here
	if err != nil || slot < 0 || slot >= command.Slots || colon < 0 {
		return false, 0, ""
	}
	host, port := strings.Trim(words[2][:colon], "[]"), words[2][colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	address, _ = endpoint(host, port)
	return words[0] == "ASK", slot, address
}

// knowsOrHasRoomFor reports whether a command may be redirected to an address.
func (cl *cluster) knowsOrHasRoomFor(address string) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.shards[address] != nil || len(cl.shards) < maxShards
}

// onMoved books where a command goes, and the slot unless that still moves. Nil: the cluster
// is closed.
func (cl *cluster) onMoved(c *command.Command, asking bool, slot int, address string) *shard {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed {
		return nil
	}
	to := cl.shardOfLocked(address)
	cl.redirects++
	switch {
	case !asking:
		cl.slotOwners[slot], to.slotlessSince, cl.hint = to, 0, address
		cl.wakeUp()
	case to.slotlessSince != 0:
		to.slotlessSince = cl.node.cfg.Clock.Now() // it is of use
	}
	if c.Op.Creates() {
		cl.pendingAcquires[c.Token] = to
	}
	return to
}
