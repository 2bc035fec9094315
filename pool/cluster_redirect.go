package pool

import (
	"net"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// maxRedirects bounds how often a command is sent on: members whose maps differ may send it to
// and fro.
const maxRedirects = 8

// redirect sends a command on that a member did not execute because another one has its
// slot (MOVED) or, while the slot moves, its key (ASK), and reports whether it has. A
// command that was given up meanwhile is not: what undoes it is behind it here, and may not
// be overtaken. Called by the reader.
func (pc *pipeConn) redirect(c *wire.Command, err error) bool {
	m := pc.pipeline.node.shard
	if m == nil || err == nil {
		return false
	}
	asking, slot, address := redirection(serverError(err).Error(), m.address)
	if address == "" {
		if answeredBy(serverError(err), "CLUSTERDOWN") && c.Retries == 0 { // a probe tells nothing new
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
	if c.Op.Undoes() { // and once more here as long as its acquire may still come (docs/dev/rules.md rule 6)
		pc.pipeline.keep(c, false, pc.nothingToUndo(c))
	}
	probe := c.Op.Undoes() && c.Retries > 0
	c.Redirects, c.Asking = c.Redirects+1, asking
	to.node.pipelineOf(c).requeue(c)
	if probe { // the server takes commands again: those that fail elsewhere are parked there
		pc.pipeline.sendParked()
	}
	return true
}

// redirection reads "MOVED slot host:port" and ASK, of the member at an address; without
// a host it is the same one. An empty address: it is neither.
func redirection(text, from string) (asking bool, slot int, address string) {
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return false, 0, ""
	}
	slot, err := strconv.Atoi(words[1])
	colon := strings.LastIndex(words[2], ":") // an IPv6 address stands without brackets
	if err != nil || slot < 0 || slot >= wire.Slots || colon < 0 {
		return false, 0, ""
	}
	host, port := strings.Trim(words[2][:colon], "[]"), words[2][colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	address, _ = endpoint(host, port)
	return words[0] == "ASK", slot, address
}

// knowsOrHasRoomFor reports whether a command may be sent on to an address.
func (cl *cluster) knowsOrHasRoomFor(address string) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.shards[address] != nil || len(cl.shards) < maxShards
}

// onMoved books where a command goes, and the slot unless that still moves. Nil: the cluster
// is closed.
func (cl *cluster) onMoved(c *wire.Command, asking bool, slot int, address string) *shard {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed {
		return nil
	}
	to := cl.shardOf(address)
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
