package pool

import (
	"net"
	"sync"
	"time"
)

// coalescingConn is a connection that holds back what is written, so that a batch of commands is
// one system call: whoever has the right to write sends it, by drain or by offer. Under TLS
// it lies below, and what it holds are records; an alert that nobody sends any more is lost
// with the connection. It ignores the read deadline that redigo sets before every reply: the
// watchdog is a timer of its own.
type coalescingConn struct {
	net.Conn
	passthrough bool // writes at once; until a TLS handshake is over
	socket      *nonblockingConn

	mu  sync.Mutex // guards held: TLS may have something to say also while it reads
	buf []byte

	unsent []byte // taken from held, and not sent yet; of whoever has the right to write
}

func newCoalescingConn(raw net.Conn) *coalescingConn {
	return &coalescingConn{Conn: raw, socket: socketOf(raw)}
}

func (g *coalescingConn) Write(p []byte) (int, error) {
	if g.passthrough {
		return g.Conn.Write(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buf = append(g.buf, p...)
	return len(p), nil
}

func (g *coalescingConn) SetReadDeadline(t time.Time) error {
	if g.passthrough {
		return g.Conn.SetReadDeadline(t)
	}
	return nil
}

// flush sends all, however long the peer takes.
func (g *coalescingConn) flush() error {
	g.swapBuffers()
	_, err := g.Conn.Write(g.unsent)
	g.consumed(len(g.unsent))
	return err
}

// tryFlush sends as much as the socket takes in at once, which may be nothing. Only where
// offers says so.
func (g *coalescingConn) tryFlush() error {
	g.swapBuffers()
	n, err := g.socket.tryWrite(g.unsent)
	g.consumed(n)
	return err
}

// canTryFlush reports whether what is written can be offered.
func (g *coalescingConn) canTryFlush() bool { return g.socket != nil }

// hasUnsent reports whether an offer left something, which only drain sends then.
func (g *coalescingConn) hasUnsent() bool { return len(g.unsent) > 0 }

// swapBuffers moves what was held to the rest.
func (g *coalescingConn) swapBuffers() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.unsent) == 0 {
		g.unsent, g.buf = g.buf, g.unsent
		return
	}
	g.unsent, g.buf = append(g.unsent, g.buf...), reusable(g.buf[:0])
}

func (g *coalescingConn) consumed(n int) {
	if g.unsent = g.unsent[:copy(g.unsent, g.unsent[n:])]; len(g.unsent) == 0 {
		g.unsent = reusable(g.unsent)
	}
}

// reusable is an empty buffer, unless it is too large to be worth keeping.
func reusable(buffer []byte) []byte {
	const keep = 64 << 10
	if cap(buffer) > keep {
		return nil
	}
	return buffer
}
