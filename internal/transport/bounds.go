package transport

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/resp"
)

var (
	// ReplyLimits are the limits of one reply. The longest replies that a lock needs are the error text of a script
	// and the keys of 1,024 names; INFO has some ten kilobytes. docs/dev/hazards.md says what happens without
	// limits.
	ReplyLimits = resp.Limits{Line: 64 << 10, Bulk: 1 << 20, Array: 16 << 10, Elements: 64 << 10, Depth: 8, Total: 4 << 20}
	// MapLimits are those of a slot map. In the worst case it has one range for each slot, with the members that serve it.
	MapLimits = resp.Limits{Line: 64 << 10, Bulk: 1 << 20, Array: 16 << 10, Elements: 512 << 10, Depth: 8, Total: 16 << 20}
)

// boundedConn is a connection that checks replies against limits before redigo parses them, because
// redigo allocates what a header announces. With TLS it is the layer above the encryption.
type boundedConn struct {
	net.Conn
	// These three need no mutex: only the reader's goroutine reads.
	scan    resp.Scanner
	broken  error // the error of every Read after a reply that exceeded a limit
	greeted bool  // the server has sent something
	// onUnfinished, if set, is called before a Read that waits for the rest of a reply. The
	// reader's goroutine sets it after the handshake, and so needs no mutex.
	onUnfinished func()
	// unfinished is true while a Read waits for the rest of a reply, and until a Read has found
	// its end. It is atomic because the watchdog reads it.
	unfinished atomic.Bool
}

// newBoundedConn wraps a socket before redigo reads from it: redigo allocates what the header of
// a reply claims, so the bounds must be checked before it sees the header.
func newBoundedConn(conn net.Conn, limits resp.Limits) *boundedConn {
	return &boundedConn{Conn: conn, scan: resp.Scanner{Limits: limits}}
}

// Read returns what is within the limits. After a reply that exceeds one every Read fails: the rest
// of that reply can't be told from the next one.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	if c.scan.InReply() {
		// The flag is set before the callback, and the callback runs before the Read that may
		// block: the watchdog stops when it finds no answer due and the flag unset.
		c.unfinished.Store(true)
		if c.onUnfinished != nil {
			c.onUnfinished()
		}
	}
	n, err := c.Conn.Read(p)
	if n > 0 && !c.greeted {
		c.greeted = true
		if c.broken = checkGreeting(p[:n]); c.broken != nil {
			return 0, c.broken
		}
	}
	passed, wrong := c.scan.Scan(p[:n])
	if !c.scan.InReply() && c.unfinished.Load() {
		c.unfinished.Store(false)
	}
	if wrong != nil {
		c.broken = fmt.Errorf("pool: %w", wrong)
		return passed, c.broken
	}
	return passed, err
}
