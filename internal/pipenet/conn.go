// Package pipenet is a network inside the process: pairs of net.Conn with a
// bounded buffer in each direction, as a kernel would keep for a TCP connection.
//
// It differs from net.Pipe where that matters to a test of faults: a write
// succeeds before anybody reads it, what was written survives the writer's
// Close, and the line can be cut with bytes in flight. It does no real I/O, so
// that a reader in a testing/synctest bubble blocks durably.
package pipenet

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// Buffer is the number of bytes that a direction takes in before a write blocks.
const Buffer = 64 << 10

// Conn is one end of a pair. All methods are safe for concurrent use, but two
// writes at the same time may mix their bytes when the buffer is full.
type Conn struct {
	in, out    *flow
	local, far Addr
}

// Addr is the address of an end: any name.
type Addr string

// Network is "pipe".
func (Addr) Network() string { return "pipe" }

// String is the name.
func (a Addr) String() string { return string(a) }

// Pipe makes a connected pair. In a bubble it must be called inside of it.
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

// Close ends both directions. The peer reads what was written before, then
// io.EOF; what it writes from then on fails with EPIPE. Closing twice is no error.
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

// Sever cuts the line without either end closing: the peer's writes fail with
// ECONNRESET at once, and so do its reads when it has read what had reached it.
// What the peer wrote before stays readable here, and then ends by io.EOF. It is
// the way in which a server executes commands of a connection that is no more
// (docs/dev/hazards.md H95).
func (c *Conn) Sever() {
	// This direction first: who reads the other one's end may close at once, and
	// the peer would take the cut for an orderly end.
	c.out.finish(syscall.EPIPE, syscall.ECONNRESET)
	c.in.finish(syscall.ECONNRESET, io.EOF)
}

// Unread is the number of bytes that this end has written and the peer has not
// read.
func (c *Conn) Unread() int { return c.out.len() }

// LocalAddr is this end's name.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the peer's name.
func (c *Conn) RemoteAddr() net.Addr { return c.far }

// SetDeadline sets both deadlines; the zero time means none.
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

// wrap gives errors the shape that package net gives its own.
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
