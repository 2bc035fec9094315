package pool

import (
	"net"
	"time"
)

// coalescingConn is a connection that buffers what is written, so that a batch of commands takes
// one system call, and with TLS one record of up to 16 KiB. Only the writer uses it, except for
// Read and Close.
type coalescingConn struct {
	net.Conn
	buf []byte // written, and not yet sent
}

// Write appends to the buffer. It does not fail: flush reports the error.
func (g *coalescingConn) Write(p []byte) (int, error) {
	g.buf = append(g.buf, p...)
	return len(p), nil
}

// SetReadDeadline does nothing. redigo sets a deadline before every reply, which is a cost without
// a purpose: the watchdog has a timer of its own.
func (g *coalescingConn) SetReadDeadline(time.Time) error { return nil }

// flush sends everything, however long the peer takes. After an error the connection is dead, so
// nothing is kept of what was not sent.
func (g *coalescingConn) flush() error {
	_, err := g.Conn.Write(g.buf)
	g.buf = reusable(g.buf[:0])
	return err
}

// reusable returns the empty buffer, or nil if its capacity is too large to keep for the life of
// the connection.
func reusable(buffer []byte) []byte {
	const keep = 64 << 10
	if cap(buffer) > keep {
		return nil
	}
	return buffer
}
