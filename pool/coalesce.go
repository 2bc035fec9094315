package pool

import (
	"net"
	"sync"
	"time"
)

// coalescingConn is a connection that buffers what is written, so that a batch of commands takes
// one system call. The goroutine that has the right to write sends the buffer, by flush or by
// tryFlush. With TLS this is the layer below it, and the buffer holds records. An alert that is
// written after the last flush is lost with the connection.
type coalescingConn struct {
	net.Conn
	passthrough bool             // Write sends at once: true until a TLS handshake is over
	socket      *nonblockingConn // nil if tryFlush is not possible

	// mu guards buf. The right to write is not enough here: the reader of a TLS connection may
	// write records as well, and does not have that right.
	mu  sync.Mutex
	buf []byte // written, and not yet moved to unsent

	// unsent was moved out of buf, and is not sent yet. It needs no mutex: only the goroutine
	// that has the right to write uses it.
	unsent []byte
}

// newCoalescingConn wraps a socket.
func newCoalescingConn(raw net.Conn) *coalescingConn {
	return &coalescingConn{Conn: raw, socket: socketOf(raw)}
}

// Write appends to the buffer, once the handshake is over. It does not fail: a later flush reports
// the error. It does not wait for the peer either, so the reader of a TLS connection can write a record while a flush is stuck.
func (g *coalescingConn) Write(p []byte) (int, error) {
	if g.passthrough {
		return g.Conn.Write(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
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

// flush sends everything, however long the peer takes. Only the goroutine that has the right to
// write may call it. The write runs without mu, because it may block until the watchdog closes
// the socket. After an error the connection is dead, so nothing is kept of what was not sent.
func (g *coalescingConn) flush() error {
	g.swapBuffers()
	_, err := g.Conn.Write(g.unsent)
	g.consumed(len(g.unsent))
	return err
}

// tryFlush sends as much as the socket accepts without blocking, which may be nothing. Only the
// goroutine that has the right to write may call it, and only if canTryFlush returns true. If
// hasUnsent returns true afterwards, that goroutine must pass the right on to one that calls
// flush: a record cut off in the middle must be completed before anything else is sent.
func (g *coalescingConn) tryFlush() error {
	g.swapBuffers()
	n, err := g.socket.tryWrite(g.unsent)
	g.consumed(n)
	return err
}

// canTryFlush reports whether tryFlush may be called. It can't if the connection is not a plain
// socket, because such a connection may block in any write.
func (g *coalescingConn) canTryFlush() bool { return g.socket != nil }

// hasUnsent reports whether tryFlush left bytes, which the next flush sends.
func (g *coalescingConn) hasUnsent() bool { return len(g.unsent) > 0 }

// swapBuffers moves buf behind what is still unsent, so the order of the bytes stays that of the
// writes. Mostly unsent is empty; then the two buffers change places, and nothing is copied.
func (g *coalescingConn) swapBuffers() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.unsent) == 0 {
		g.unsent, g.buf = g.buf, g.unsent
		return
	}
	g.unsent, g.buf = append(g.unsent, g.buf...), reusable(g.buf[:0])
}

// consumed removes the first n bytes of unsent, which were sent. The others move to the front, so
// the buffer does not grow from one tryFlush to the next.
func (g *coalescingConn) consumed(n int) {
	if g.unsent = g.unsent[:copy(g.unsent, g.unsent[n:])]; len(g.unsent) == 0 {
		g.unsent = reusable(g.unsent)
	}
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
