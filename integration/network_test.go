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

// network lets bytes arrive late, also when the client has closed the connection meanwhile: TCP goes on sending for a quarter of an hour.
type network struct {
	mu   sync.Mutex // guards what follows, and what conn says
	all  []*conn
	held []*conn // on which nothing arrives
}

// conn is the client's end of a connection.
type conn struct {
	net.Conn
	net *network

	// Guarded by net.mu:
	held   bool
	bytes  []byte // on their way
	broken bool   // the client reads an error
	closed bool   // by the client; the server does not know
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
		return c.SetReadDeadline(time.Unix(1, 0)) // the client reads no more
	}
	return c.Conn.Close()
}

// hold keeps back what is written from now on to the connections that stand.
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

// breakHeld has the client lose the connections that are held. Their servers notice nothing.
func (n *network) breakHeld(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.held {
		c.broken = true
		assert.NoError(t, c.SetReadDeadline(time.Unix(1, 0))) // ends a Read that is under way
	}
}

// deliver lets it arrive. A server that has ended a connection by itself takes nothing more.
func (n *network) deliver() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.held {
		_, _ = c.Conn.Write(c.bytes)
		_ = c.Conn.Close()
	}
	n.held = nil
}

// arrivesLate sends acquires to all servers, and breaks the connections that they are on the way by. They arrive when the undos
// that took other connections have been executed.
func (n *network) arrivesLate(t *testing.T, l *redlock.Locker, nodes []*redistest.Node, pools []*pool.Node) {
	t.Helper()
	n.hold()
	for i := range 5 {
		_, err := l.TryAcquire(t.Context(), fmt.Sprintf("late/%d", i), ghostTTL)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	}
	n.breakHeld(t)
	for _, p := range pools {
		await(t, "another connection stands, and the undos are out", func() bool {
			s := p.Stats()
			return s.Dials == 2 && s.Connected == 1 && s.Queued == 0
		})
	}
	connected(t, l)
	redistest.NoKeys(t, nodes, 0)
	n.deliver()
}
