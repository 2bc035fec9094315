package integration

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// network delays bytes, even after the client has closed the connection: TCP sends them again for a
// quarter of an hour.
type network struct {
	mu   sync.Mutex // guards what follows, and the marked fields of conn
	all  []*conn
	held []*conn // their bytes do not arrive
}

// conn is the client's end of a connection.
type conn struct {
	net.Conn
	net *network

	// Guarded by net.mu:
	held   bool
	bytes  []byte // in flight
	broken bool   // the client's reads fail
	closed bool   // by the client; the server does not see it
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	mine := &conn{Conn: c, net: n}
	n.all = append(n.all, mine)
	return mine, nil
}

func (c *conn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case c.held:
		c.bytes = append(c.bytes, p...)
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.broken {
		return 0, syscall.ECONNRESET
	}
	return n, err
}

func (c *conn) Close() error {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.closed = true
	if c.held {
		return c.SetReadDeadline(time.Unix(1, 0)) // the client does not read any more
	}
	return c.Conn.Close()
}

// hold holds back what is written from now on to the existing connections.
func (n *network) hold() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.all {
		if !c.closed {
			c.held = true
			n.held = append(n.held, c)
		}
	}
}

// breakHeld breaks the held connections for the client. The servers do not notice it.
func (n *network) breakHeld(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.held {
		c.broken = true
		assert.NoError(t, c.SetReadDeadline(time.Unix(1, 0))) // ends a Read in progress
	}
}

// deliver delivers the bytes that are held back. A server does not accept bytes on a connection
// that it has closed.
func (n *network) deliver() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.held {
		_, _ = c.Conn.Write(c.bytes)
		_ = c.Conn.Close()
	}
	n.held = nil
}

// arrivesLate sends acquires to all servers, and breaks their connections while the acquires are in
// flight. They arrive after the undos, which use other connections, have been executed. The acquires
// take the node timeout of l.
func (n *network) arrivesLate(t *testing.T, l *redlock.Locker, nodes []*redistest.Node, pools []*pool.Node) {
	t.Helper()
	n.hold()
	errs := make([]error, 5)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = l.TryAcquire(t.Context(), fmt.Sprintf("late/%d", i), ghostTTL) })
	}
	all.Wait()
	for _, err := range errs {
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	}
	before := make([]int64, len(pools)) // a connection may take several tries
	for i, p := range pools {
		before[i] = p.Stats().Dials
	}
	n.breakHeld(t)
	for i, p := range pools {
		await(t, "there is a new connection, and the undos are sent", func() bool {
			s := p.Stats()
			return s.Dials > before[i] && s.Connected == 1 && s.Queued == 0
		})
	}
	answered(t, l)
	redistest.NoKeys(t, nodes, 0)
	n.deliver()
}
