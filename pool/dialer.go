package pool

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// rawConn is a dialled connection. What uses it, such as a pipeConn or a pubsubConn, decides which
// goroutine writes: rawConn itself has no lock for that.
type rawConn struct {
	redis redis.Conn
	// raw, writer and in are the layers below redis: the socket that abort closes, the buffer of
	// what is written, and the bounds on what is read. All three are nil if a wrapped pool dialled.
	raw      net.Conn
	writer   *coalescingConn
	in       *boundedConn
	giveBack func() // returns the connection to the pool that counts it; may be nil

	// address is the one that Sentinels or a Cluster's slot map named; otherwise it is empty.
	address string
	// password is what AUTH sent, which no error may show. The handshake sets it, and ends before
	// the goroutines that read it start, so it needs no mutex.
	password string
	// closeReason is why the library closed the connection. It is atomic because closeFor runs on
	// other goroutines than the reader and the writer.
	closeReason atomic.Pointer[error]
}

// closeFor closes the connection because the library decided so. Only the first reason is kept. It is
// stored before the socket is closed, because the reader then notices only the closing and looks up
// the reason.
func (rc *rawConn) closeFor(why error) {
	rc.closeReason.CompareAndSwap(nil, &why)
	rc.abort()
}

// reason returns why the connection ended: what closeFor was given, or else err, which is what the
// reader or the writer noticed.
func (rc *rawConn) reason(err error) error {
	if why := rc.closeReason.Load(); why != nil {
		return *why
	}
	return err
}

// abort closes the connection at once, whatever the server does. It is safe while other goroutines
// read and write: closing the socket is what unblocks them.
func (rc *rawConn) abort() {
	if rc.raw != nil {
		// With TLS this is the TCP connection below, because tls.Conn.Close may take 5 s.
		_ = rc.raw.Close()
		return
	}
	_ = rc.redis.Close()
}

// close returns an aborted connection to its pool. It must come after abort, and after reader and
// writer have ended: redigo's pooled Close reads the outstanding replies (docs/dev/hazards.md H104).
func (rc *rawConn) close() {
	if rc.giveBack != nil {
		// First the connection itself: redigo puts one that has no error back among the idle ones.
		_ = rc.redis.Close()
		rc.giveBack()
	}
}

// dialer makes a node's connections.
type dialer interface {
	// dial returns a connection on which no command was sent yet. On a connection of a wrapped
	// pool, the pool's own dial function may have sent some, such as AUTH.
	dial(ctx context.Context) (*rawConn, error)
	close() error
}

// poolDialer dials through a redigo pool of its own. Each connection is borrowed for its whole
// life. Pool.Wait stays false, because Close may panic with it.
type poolDialer struct {
	cfg  *Config // a pointer, as in Node
	pool *redis.Pool
}

// The context of a dial carries the rawConn that connect fills in. It may carry an address, from
// Sentinels or a slot map, that replaces the configured one.
type (
	rawConnKey struct{}
	addressKey struct{}
)

// newOwnPool makes the dialer of a node with its own connections.
func newOwnPool(cfg *Config) *poolDialer {
	o := &poolDialer{cfg: cfg}
	o.pool = &redis.Pool{MaxIdle: 1, DialContext: o.connect}
	return o
}

// dial borrows a new connection from the pool. No idle one can come out: giveBack runs after the
// connection was closed, and then redigo drops it.
func (o *poolDialer) dial(ctx context.Context) (*rawConn, error) {
	s := &rawConn{}
	c, err := o.pool.GetContext(context.WithValue(ctx, rawConnKey{}, s))
	if err != nil {
		return nil, err
	}
	if s.redis == nil {
		return nil, oneline.Join(errors.New("pool: redigo's pool returned a connection that it had not dialled"), c.Close())
	}
	s.giveBack = func() { _ = c.Close() }
	return s, nil
}

// connect dials for the redigo pool, and stores the connection in the rawConn that the context
// carries. Commands bypass the pool's wrapper, which looks up each command's name in a table.
func (o *poolDialer) connect(ctx context.Context) (redis.Conn, error) {
	cfg := *o.cfg
	if named, ok := ctx.Value(addressKey{}).(string); ok {
		cfg.Address = named
	}
	conn, out, err := cfg.dialRaw(ctx)
	if err != nil {
		return nil, err
	}
	in := newBoundedConn(conn, replyLimits)
	c := redis.NewConn(in, 0, 0)
	if s, ok := ctx.Value(rawConnKey{}).(*rawConn); ok {
		s.redis, s.raw, s.writer, s.in = c, out.Conn, out, in
	}
	return c, nil
}

// close releases the dialer. Connections that are in use remain until they are closed.
func (o *poolDialer) close() error { return o.pool.Close() }

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

// rawConns is a set of open connections that may have to be closed together.
type rawConns map[*rawConn]struct{}

// trackLocked adds a connection to the set until it is given back. The caller holds mu, which guards
// the set. The new giveBack locks mu itself, and releases it before it calls redigo's pool.
func (all rawConns) trackLocked(s *rawConn, mu sync.Locker) {
	all[s] = struct{}{}
	put := s.giveBack
	s.giveBack = func() {
		mu.Lock()
		delete(all, s)
		mu.Unlock()
		put()
	}
}
