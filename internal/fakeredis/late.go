package fakeredis

import (
	"bytes"
	"context"
	"net"
	"time"

	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// DialLate returns a Dial whose connections carry requests late: what the client sends reaches the
// master only that much later, in order. Each write has its own time, so pipelining keeps its
// throughput. Replies are not delayed. Only connections that execute a lock's commands are late, and
// only from their first one on, so connecting takes no time. The connections are in process, also those of a
// master that listens.
func (m *Master) DialLate(by time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	if by == 0 {
		return m.Dial
	}
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := m.dialPipe(ctx)
		if err != nil {
			return nil, err
		}
		return &lateConn{Conn: conn, by: by}, nil
	}
}

// Arriving returns the time until all requests that are on their way to the master have arrived.
func (m *Master) Arriving() (last time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.clients {
		if conn, ok := c.conn.(interface{ Arriving() time.Duration }); ok {
			last = max(last, conn.Arriving())
		}
	}
	return last
}

// lateConn is a connection that is late from the first command on that is not part of a handshake.
type lateConn struct {
	*pipenet.Conn
	by time.Duration
}

// lateFrom are the commands from which on a connection is late. A handshake has none of them; it loads
// scripts.
var lateFrom = [][]byte{[]byte("\r\nEVALSHA\r\n"), []byte("\r\nEVAL\r\n"), []byte("\r\nSET\r\n")}

func (c *lateConn) Write(p []byte) (int, error) {
	for _, name := range lateFrom {
		if bytes.Contains(p, name) {
			c.Delay(c.by)
		}
	}
	return c.Conn.Write(p)
}
