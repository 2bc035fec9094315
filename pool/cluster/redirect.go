package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/server"
)

// maxRedirects bounds how often a command is redirected: shards with different slot maps may
// redirect it to each other.
const maxRedirects = 8

// redirect moves a command to another shard if its server did not execute it because that shard
// has the slot (MOVED) or, while the slot is being moved, the key (ASK). It reports whether it
// has, or else what is shown in place of the error, or nil. It does not redirect a command that was cancelled meanwhile: its undo
// is behind it on this connection and must not be overtaken. Only the reader calls it.
func (sh *shard) redirect(c *command.Command, err error) (taken bool, shown error) {
	// Without a host in the error, the slot is on the same host at another port.
	asking, slot, address := redirection(resp.Clean(err).Error(), sh.address)
	if address == "" {
		if resp.Code(err) == "CLUSTERDOWN" && c.Retries == 0 { // a probe shows nothing new
			sh.cluster.refresh.wake.Set()
		}
		return false, sh.withoutHost(err)
	}
	// Each condition means that the error becomes the command's answer: the limit, a Cluster that
	// names ever more addresses, or a command that was cancelled. UnmarkForRedirect comes last
	// because it changes the command.
	if c.Redirects >= maxRedirects || !sh.cluster.hasRoomFor(address) || !c.UnmarkForRedirect() {
		return false, nil
	}
	// The destination is recorded before the command is queued there, so every later undo follows
	// it. An undo between the two steps may be queued first. Its acquire was cancelled before that,
	// and is then never written.
	to := sh.onMoved(c, asking, slot, address)
	if to == nil {
		c.Fail(server.ErrClosed)
		return true, nil
	}
	if c.Op.Undoes() {
		sh.PassedOn(c)
	}
	c.Redirects++
	c.SetAsking(asking)
	to.Requeue(c) // from here on the other shard owns the command
	return true, nil
}

// withoutHost names the server that sent a redirect without a host. It returns nil for any other error.
func (sh *shard) withoutHost(err error) error {
	code, clean := resp.Code(err), resp.Clean(err)
	if code != "MOVED" && code != "ASK" || !strings.Contains(clean.Error(), " "+node.NoHost+":") {
		return nil
	}
	return fmt.Errorf("pool: %w: %s names no host: %s", clean, sh.address, setHostname)
}

// redirection parses "MOVED slot host:port" and ASK from the member at address from. Without a
// host it is the same one. The address is empty if the text is neither.
func redirection(text, from string) (asking bool, slot int, address string) {
	// The text comes from a server, so nothing in it is trusted: three words, a slot in range, an
	// address that can be one.
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
	// An invalid endpoint leaves the address empty, which the caller takes for no redirect.
	address, _ = node.Endpoint(host, port)
	return words[0] == "ASK", slot, address
}

// onMoved records where a command goes, and the owner of the slot unless the slot is still being
// moved. It returns nil if the node is closed.
func (sh *shard) onMoved(c *command.Command, asking bool, slot int, address string) *shard {
	cl := sh.cluster
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed {
		return nil
	}
	cl.redirects++
	if asking {
		cl.slots.asked(address, sh.address, cl.base.Settings.Clock.Now())
	} else {
		cl.slots.moved(slot, address, sh.address)
		// The other slots may have moved as well, so the whole map is queried soon.
		cl.refresh.wake.Set()
	}
	// The undo of this token must go where the acquire is, even if the map says otherwise by then.
	cl.slots.sent(c.Request, address)
	// The shard is made if the map did not have it yet: the redirect is newer than the map.
	return cl.shardOfLocked(address)
}
