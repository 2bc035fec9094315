package transport

import (
	"net"
	"sync"
	"time"
)

// coalescingConn is a connection that buffers what is written, so that a batch of commands takes
// one system call. The writer sends the buffer by flush. With TLS this is the layer below it, and
// the buffer holds records. An alert that is written after the last flush is lost with the
// connection.
type coalescingConn struct {
	net.Conn
	passthrough bool // Write sends at once: true until a TLS handshake is over

	mu  *sync.Mutex // guards buf with TLS, whose reader may write records as well; nil without TLS
	buf []byte      // written, and not yet sent

	spare []byte // empty: takes the place of buf while flush sends that; used only by the writer
}

// Write appends to the buffer, once the handshake is over. It does not fail: a later flush reports
// the error. It does not wait for the peer either, so the reader of a TLS connection can write a
// record while a flush is stuck.
func (g *coalescingConn) Write(p []byte) (int, error) {
	if g.passthrough {
		return g.Conn.Write(p)
	}
	if g.mu != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	g.buf = append(g.buf, p...)
	return len(p), nil
}

// SetReadDeadline does nothing once the handshake is over. redigo sets a deadline before every
// reply, which is a cost without a purpose: the watchdog has a timer of its own.
func (g *coalescingConn) SetReadDeadline(t time.Time) error {
	if g.passthrough {
		return g.Conn.SetReadDeadline(t)
	}
	return nil
}

// flush sends everything, however long the peer takes. Only the writer may call it. It writes
// without mu, because the write may block until the watchdog closes the socket. After an error the
// connection is dead, so nothing is kept of what was not sent.
func (g *coalescingConn) flush() error {
	full := g.swap()
	_, err := g.Conn.Write(full)
	g.spare = reusable(full[:0])
	return err
}

// swap returns what was written, and leaves an empty buffer.
func (g *coalescingConn) swap() (full []byte) {
	if g.mu != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
	}
	full, g.buf = g.buf, g.spare
	return full
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
