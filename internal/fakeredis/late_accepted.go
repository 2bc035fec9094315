package fakeredis

import (
	"io"
	"net"
	"time"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// AcceptLate makes the requests of connections that a listening master accepts from now on execute
// late, as those of DialLate: each connection's by what next returns, which may be 0.
func (m *Master) AcceptLate(next func() time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script.late = next
}

// lateness draws by how much a connection over TCP is late; under m.mu.
func (m *Master) lateness() time.Duration {
	if m.script.late == nil {
		return 0
	}
	return m.script.late()
}

// late returns a connection whose reads are late. A goroutine reads what the client has sent as soon as
// it arrives, and ends with the connection.
func (m *Master) late(conn *net.TCPConn, by time.Duration) net.Conn {
	far, near := pipenet.Pipe("client", pipenet.Addr(m.addr))
	m.served.Go(func() {
		_, _ = io.Copy(&lateConn{Conn: far, by: by}, conn)
		_ = far.Close() // what was sent before arrives none the less
	})
	return &lateTCPConn{TCPConn: conn, requests: near}
}

// lateTCPConn is a connection whose requests come from a pipe that delays them.
type lateTCPConn struct {
	*net.TCPConn
	requests *pipenet.Conn
}

func (c *lateTCPConn) Read(p []byte) (int, error) { return c.requests.Read(p) }

func (c *lateTCPConn) Close() error {
	_ = c.requests.Close()
	return c.TCPConn.Close()
}

// Arriving is that of the pipe.
func (c *lateTCPConn) Arriving() time.Duration { return c.requests.Arriving() }
