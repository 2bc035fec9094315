package pool

import (
	"net"
	"sync"
	"time"
)

// gather is a connection that holds back what is written, so that a batch of commands is
// one system call: whoever has the right to write sends it, by drain or by offer. Under TLS
// it lies below, and what it holds are records; an alert that nobody sends any more is lost
// with the connection. It ignores the read deadline that redigo sets before every reply: the
// watchdog is a timer of its own.
type gather struct {
	net.Conn
	direct bool // writes at once; until a TLS handshake is over
	socket *socket

	mu   sync.Mutex // guards held: TLS may have something to say also while it reads
	held []byte

	rest []byte // taken from held, and not sent yet; of whoever has the right to write
}

func newGather(raw net.Conn) *gather { return &gather{Conn: raw, socket: socketOf(raw)} }

func (g *gather) Write(p []byte) (int, error) {
	if g.direct {
		return g.Conn.Write(p)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = append(g.held, p...)
	return len(p), nil
}

func (g *gather) SetReadDeadline(t time.Time) error {
	if g.direct {
		return g.Conn.SetReadDeadline(t)
	}
	return nil
}

// drain sends all, however long the peer takes.
func (g *gather) drain() error {
	g.take()
	_, err := g.Conn.Write(g.rest)
	g.sent(len(g.rest))
	return err
}

// offer sends as much as the socket takes in at once, which may be nothing. Only where
// offers says so.
func (g *gather) offer() error {
	g.take()
	n, err := g.socket.offer(g.rest)
	g.sent(n)
	return err
}

// offers reports whether what is written can be offered.
func (g *gather) offers() bool { return g.socket != nil }

// owes reports whether an offer left something, which only drain sends then.
func (g *gather) owes() bool { return len(g.rest) > 0 }

// take moves what was held to the rest.
func (g *gather) take() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.rest) == 0 {
		g.rest, g.held = g.held, g.rest
		return
	}
	g.rest, g.held = append(g.rest, g.held...), spared(g.held[:0])
}

func (g *gather) sent(n int) {
	if g.rest = g.rest[:copy(g.rest, g.rest[n:])]; len(g.rest) == 0 {
		g.rest = spared(g.rest)
	}
}

// spared is an empty buffer, unless it is too large to be worth keeping.
func spared(buffer []byte) []byte {
	const keep = 64 << 10
	if cap(buffer) > keep {
		return nil
	}
	return buffer
}
