package pool

import (
	"fmt"
	"net"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/resp"
)

// ErrReplyLimit is why a connection was closed: its server sent a reply that is larger than any that this package needs, or
// that is not RESP2. The node is dialled again.
var ErrReplyLimit = resp.ErrLimit

// What one reply may cost. The longest that a lock needs are the error text of a script and
// the keys of 1,024 names; INFO has some ten kilobytes. docs/dev/hazards.md says what happens without.
var (
	replyLimits = resp.Limits{Line: 64 << 10, Bulk: 1 << 20, Array: 16 << 10, Elements: 64 << 10, Depth: 8, Total: 4 << 20}
	// A slot map has a range for each slot at the worst, with the members that serve it.
	topologyLimits = resp.Limits{Line: 64 << 10, Bulk: 1 << 20, Array: 16 << 10, Elements: 512 << 10, Depth: 8, Total: 16 << 20}
)

// boundedConn is a connection whose replies are bounded before redigo parses them: redigo
// allocates what a header announces. Only the reader's goroutine reads.
type boundedConn struct {
	net.Conn
	scan   resp.Scanner
	broken error
	// onUnfinished, if set, is called before a Read that waits for the rest of a reply.
	onUnfinished func()
	unfinished   atomic.Bool // a Read waits, or waited last, for the rest of a reply
}

func newBoundedConn(conn net.Conn, limits resp.Limits) *boundedConn {
	return &boundedConn{Conn: conn, scan: resp.Scanner{Limits: limits}}
}

// Read hands on what is within the limits. After a reply that is not it fails for good.
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	if c.scan.InReply() {
		c.unfinished.Store(true)
		if c.onUnfinished != nil {
			c.onUnfinished()
		}
	}
	n, err := c.Conn.Read(p)
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
