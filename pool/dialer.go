package pool

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// rawConn is a dialled connection. What uses it, such as a pipeConn or a pubsubConn, decides which
// goroutine writes: rawConn itself has no lock for that.
type rawConn struct {
	redis redis.Conn
	// raw, writer and in are the layers below redis: the socket that abort closes, the buffer of
	// what is written, and the bounds on what is read. All three are nil if a wrapped pool dialled.
	raw    net.Conn
	writer *coalescingConn
	in     *boundedConn
	forget func() // removes the connection from those that a Sentinel node tracks; may be nil

	// address is the one that Sentinels or a Cluster's slot map named; otherwise it is empty.
	address string
	// password is what AUTH sent, which no error may show. The handshake sets it, and ends before
	// the goroutines that read it start, so it needs no mutex.
	password string

	failed  sync.Once
	dead    chan struct{} // closed by fail
	err     error         // the reason; readable once dead is closed
	aborted atomic.Bool
}

// newRawConn returns a connection without the layers below c.
func newRawConn(c redis.Conn) *rawConn { return &rawConn{redis: c, dead: make(chan struct{})} }

// fail ends the connection, for its reader, its writer or anybody else. The first reason counts. Closing the
// socket releases a reader or writer that is blocked on it.
func (rc *rawConn) fail(err error) {
	rc.failed.Do(func() {
		rc.err = err
		close(rc.dead)
		rc.abort()
	})
}

// isDead reports whether fail was called.
func (rc *rawConn) isDead() bool {
	select {
	case <-rc.dead:
		return true
	default:
		return false
	}
}

// abort closes the connection at once, whatever the server does. It is safe while other goroutines
// read and write: closing the socket is what unblocks them. It closes it once, because the connections of a
// service may not expect more.
func (rc *rawConn) abort() {
	switch {
	case rc.aborted.Swap(true):
	case rc.raw != nil:
		// With TLS this is the TCP connection below, because tls.Conn.Close may take 5 s.
		_ = rc.raw.Close()
	default:
		_ = rc.redis.Close()
	}
}

// close ends the use of the connection, after its reader and writer have ended.
func (rc *rawConn) close() {
	rc.abort()
	if rc.forget != nil {
		rc.forget()
	}
}

// dialer makes a node's connections.
type dialer interface {
	// dial returns a connection on which no command was sent yet. On a connection of a wrapped
	// pool, the pool's own dial function may have sent some, such as AUTH.
	dial(ctx context.Context) (*rawConn, error)
}

// dial connects to the address, and bounds what the peer may send. A Config is the dialer of a node with
// its own connections.
func (c *Config) dial(ctx context.Context) (*rawConn, error) {
	conn, out, err := c.dialRaw(ctx)
	if err != nil {
		return nil, err
	}
	in := newBoundedConn(conn, replyLimits)
	rc := newRawConn(redis.NewConn(in, 0, 0))
	rc.raw, rc.writer, rc.in = out.Conn, out, in
	return rc, nil
}

// at returns the Config of a server whose address Sentinels or a slot map named.
func (c *Config) at(address string) *Config {
	named := *c
	named.Address = address
	return &named
}

// flush sends what was written with Send, however long the server takes. Only one goroutine may
// write and flush. redigo's own Flush comes first: it moves redigo's buffer into that of writer,
// which the second one sends.
func (rc *rawConn) flush() error {
	if err := rc.redis.Flush(); err != nil {
		return err
	}
	if rc.writer == nil {
		return nil
	}
	return rc.writer.flush()
}

// unfinished reports whether the peer has begun a reply and not ended it. The watchdog calls it
// while the reader reads.
func (rc *rawConn) unfinished() bool { return rc.in != nil && rc.in.unfinished.Load() }
