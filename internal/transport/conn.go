package transport

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// Dialer makes connections on which no command was sent yet. On a connection of a wrapped pool, the
// pool's own dial function may have sent some, such as AUTH.
type Dialer interface {
	Dial(ctx context.Context) (*Conn, error)
}

// Conn is a dialled connection. One goroutine uses it for Greet and Ask. After that one goroutine may Pace, Send and
// Flush, and another one Receive. Anybody may End it. Start comes between the two, if each call has one reply.
type Conn struct {
	Address string // the one that Sentinels named; otherwise empty
	Forget  func() // called by Close; may be nil

	// Redis turns calls into bytes and bytes into replies. A test may replace it.
	Redis redis.Conn

	settings *Settings
	// writer and in are the layers below Redis: the buffer of what is written, over the socket, and the
	// bounds on what is read. Both are nil if a wrapped pool dialled.
	writer *coalescingConn
	in     *boundedConn
	// password is what AUTH sent, which no error may show. Greet sets it, and ends before the goroutines that
	// read it start, so it needs no mutex.
	password string

	calls int64 // that were written; the writer's
	watchdog
	pace pace

	failed  sync.Once
	dead    chan struct{} // closed by End
	err     error         // the reason; readable once dead is closed
	aborted atomic.Bool
}

// newConn returns a connection without the layers below r.
func newConn(s *Settings, r redis.Conn) *Conn {
	c := &Conn{settings: s, Redis: r, dead: make(chan struct{})}
	c.watchdog = watchdog{conn: c}
	return c
}

// wrapped reports whether a wrapped pool dialled.
func (c *Conn) wrapped() bool { return c.writer == nil }

// Pace waits some milliseconds if the peer is silent. The writer calls it before it chooses what to send.
func (c *Conn) Pace() { c.pace.wait(c.settings.Clock, c.received.Load(), c.dead) }

// Send adds a call to what Flush sends. It does not keep args.
func (c *Conn) Send(name string, args []any) error {
	c.calls++
	if c.wrapped() { // the service's connection may send at once, and may keep the arguments
		c.expect(c.calls)
		args = slices.Clone(args)
	}
	return c.Redis.Send(name, args...)
}

// Flush sends what was written with Send, however long the server takes. redigo's own Flush comes first: it moves
// redigo's buffer into that of writer, which the second one sends.
func (c *Conn) Flush() error {
	c.expect(c.calls)
	c.pace.flushed(c.settings.Clock, c.received.Load())
	if err := c.Redis.Flush(); err != nil {
		return err
	}
	if c.wrapped() {
		return nil
	}
	return c.writer.flush()
}

// Reply is what a server said to one call: a value as redigo reads it, or an error. The error has no text if that
// repeats the password.
type Reply struct {
	Value any
	Err   error
}

// Receive waits for the next reply. Its error means that no other one will come.
func (c *Conn) Receive() (Reply, error) {
	v, err := redis.ReceiveWithTimeout(c.Redis, 0)
	// An error reply of the server is also an err.
	if err != nil && c.Redis.Err() != nil {
		return Reply{}, err
	}
	// A server that is out of step can't be trusted with any later reply either.
	if n := c.received.Add(1); c.started && n > c.due.Load() {
		return Reply{}, ErrOutOfStep
	}
	// In every reply: a service may answer AUTH late, out of step.
	if status, ok := v.(string); ok && len(status) > len("PONG") {
		v = oneline.Redact(status, c.password)
	}
	return Reply{v, resp.Withhold(err, c.password)}, nil
}

// Bound sets other limits for the replies.
func (c *Conn) Bound(limits resp.Limits) { c.in.scan.Limits = limits }

// End ends the connection, for its reader, its writer or anybody else. The first reason counts. Closing the
// socket releases a reader or writer that is blocked on it.
func (c *Conn) End(why error) {
	c.failed.Do(func() {
		c.err = why
		close(c.dead)
		c.Abort()
	})
}

// Dead is closed by End.
func (c *Conn) Dead() <-chan struct{} { return c.dead }

// Err returns why the connection ended. Dead must be closed.
func (c *Conn) Err() error { return c.err }

// ClosedIdle reports whether the peer closed the connection while it owed no reply, as servers and proxies do with
// idle connections. Dead must be closed.
func (c *Conn) ClosedIdle() bool { return !c.owesReply() && isClosing(c.err) }

// IsDead reports whether End was called.
func (c *Conn) IsDead() bool {
	select {
	case <-c.dead:
		return true
	default:
		return false
	}
}

// Abort closes the connection at once, whatever the server does. It is safe while other goroutines
// read and write: closing the socket is what unblocks them. It closes it once, because the connections of a
// service may not expect more.
func (c *Conn) Abort() {
	switch {
	case c.aborted.Swap(true):
	case c.wrapped():
		_ = c.Redis.Close()
	default:
		// With TLS this is the TCP connection below, because tls.Conn.Close may take 5 s.
		_ = c.writer.Close()
	}
}

// Close ends the use of the connection, after its reader and writer have ended.
func (c *Conn) Close() {
	c.Abort()
	c.unwatch()
	if c.Forget != nil {
		c.Forget()
	}
}
