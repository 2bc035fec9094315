// Package pipenet is a network inside the process: pairs of net.Conn with a bounded buffer in each
// direction, like that of a kernel for a TCP connection.
//
// It differs from net.Pipe in what tests of faults need. A write succeeds before the peer reads it,
// written bytes survive the writer's Close, and the connection can be cut with bytes in flight. There
// is no real I/O, so a reader in a testing/synctest bubble blocks durably.
package pipenet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Buffer is the number of bytes that a direction can hold before a write blocks.
const Buffer = 64 << 10

// Conn is one end of a pair. All methods are safe for concurrent use, but two
// writes at the same time may mix their bytes when the buffer is full.
type Conn struct {
	in, out    *flow
	local, far Addr
}

// Addr is the address of an end: any name.
type Addr string

// Network returns "pipe".
func (Addr) Network() string { return "pipe" }

// String returns the name.
func (a Addr) String() string { return string(a) }

// Pipe makes a connected pair. A pair for a bubble must be made inside the bubble.
func Pipe(client, server Addr) (*Conn, *Conn) {
	there, back := newFlow(), newFlow()
	return &Conn{in: back, out: there, local: client, far: server},
		&Conn{in: there, out: back, local: server, far: client}
}

// Read blocks until there are bytes, the peer has closed (io.EOF) or was cut off
// (ECONNRESET), this end is closed (net.ErrClosed) or the read deadline has
// passed (os.ErrDeadlineExceeded).
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.take(p)
	return n, c.wrap("read", err)
}

// Write blocks while the buffer is full. The bytes before an error count as sent.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.put(p)
	return n, c.wrap("write", err)
}

// Close ends both directions. The peer reads what was written before, and then io.EOF. Its later
// writes fail with EPIPE. A second Close returns nil.
func (c *Conn) Close() error {
	c.in.abandon(net.ErrClosed, syscall.EPIPE)
	c.out.finish(net.ErrClosed, io.EOF)
	return nil
}

// CloseWrite ends this end's direction only.
func (c *Conn) CloseWrite() error {
	c.out.finish(net.ErrClosed, io.EOF)
	return nil
}

// Sever cuts the connection without a Close of either end. The peer's writes fail with ECONNRESET
// at once. Its reads fail so after the bytes that had reached it. What the peer wrote before can
// still be read here, and then comes io.EOF. In this way a server executes commands of a connection
// that has ended (docs/dev/hazards.md H95).
func (c *Conn) Sever() {
	// This direction first. The reader of the other direction may close at once, and the peer
	// would then take the cut for an orderly end.
	c.out.finish(syscall.EPIPE, syscall.ECONNRESET)
	c.in.finish(syscall.ECONNRESET, io.EOF)
}

// Unread returns the number of bytes that this end has written and the peer has not read.
func (c *Conn) Unread() int { return c.out.len() }

// Delay makes what this end writes from now on reach the peer that much later. Each write has its own
// time of arrival, so delays do not add up. It arrives also after a Close of this end. Only the first
// Delay counts.
func (c *Conn) Delay(by time.Duration) { c.out.delay(by) }

// Arriving returns the time until all that the peer has written has arrived. It is 0 without a Delay.
func (c *Conn) Arriving() time.Duration { return c.in.arriving() }

// LocalAddr returns this end's name.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's name.
func (c *Conn) RemoteAddr() net.Addr { return c.far }

// SetDeadline sets both deadlines. The zero time removes them.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reading, t)
	c.out.setDeadline(&c.out.writing, t)
	return nil
}

// SetReadDeadline bounds reads, also one that is blocked now.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.reading, t)
	return nil
}

// SetWriteDeadline bounds writes, also one that is blocked now.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writing, t)
	return nil
}

// wrap returns an error in the form of package net.
func (c *Conn) wrap(op string, err error) error {
	var no syscall.Errno
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.As(err, &no):
		err = os.NewSyscallError(op, no)
	}
	return &net.OpError{Op: op, Net: "pipe", Source: c.local, Addr: c.far, Err: err}
}
