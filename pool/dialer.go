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

// rawConn is a dialled connection before it becomes a link.
type rawConn struct {
	redis    redis.Conn
	raw      net.Conn        // what the watchdog closes; nil where a wrapped pool dialled
	writer   *coalescingConn // nil where a wrapped pool dialled
	in       *boundedConn    // what redigo reads from; nil where a wrapped pool dialled
	giveBack func()          // gives the connection back to the pool it counts in; may be nil

	address     string                // that Sentinels named; empty where there are none
	password    string                // that AUTH sent: no error shows it. Set before the first command
	closeReason atomic.Pointer[error] // why it was cut
}

// closeFor ends the connection for a reason of our own.
func (rc *rawConn) closeFor(why error) {
	rc.closeReason.CompareAndSwap(nil, &why)
	rc.abort()
}

// reason is why the connection ended, of which err is what was noticed.
func (rc *rawConn) reason(err error) error {
	if why := rc.closeReason.Load(); why != nil {
		return *why
	}
	return err
}

// abort ends the connection at once, whatever the server does. It is safe while
// others read and write.
func (rc *rawConn) abort() {
	if rc.raw != nil {
		// Under TLS the TCP connection below: tls.Conn.Close may take 5 s.
		_ = rc.raw.Close()
		return
	}
	_ = rc.redis.Close()
}

// close gives an aborted connection back, when nobody reads or writes any more:
// redigo's pooled Close drains outstanding replies (docs/dev/hazards.md H104).
func (rc *rawConn) close() {
	if rc.giveBack != nil {
		// A connection that redigo takes for a good one would go back among the idle.
		_ = rc.redis.Close()
		rc.giveBack()
	}
}

// dialer is where a node's connections come from.
type dialer interface {
	// dial returns a connection on which nothing was said yet, or, from a wrapped
	// pool, what the pool's owner says on each.
	dial(ctx context.Context) (*rawConn, error)
	close() error
}

// poolDialer is a redigo pool for our own connections. Each is borrowed for its
// whole life. Pool.Wait stays false: with it, Close may panic (REDIGO.md).
type poolDialer struct {
	cfg  *Config // not Config: as in Node
	pool *redis.Pool
}

// A dial's context carries where to leave the session, and the address that Sentinels
// named in place of the configured one.
type (
	rawConnKey struct{}
	addressKey struct{}
)

func newOwnPool(cfg *Config) *poolDialer {
	o := &poolDialer{cfg: cfg}
	o.pool = &redis.Pool{MaxIdle: cfg.Connections, DialContext: o.connect}
	return o
}

func (o *poolDialer) dial(ctx context.Context) (*rawConn, error) {
	s := &rawConn{}
	c, err := o.pool.GetContext(context.WithValue(ctx, rawConnKey{}, s))
	if err != nil {
		return nil, err
	}
	if s.redis == nil {
		return nil, oneline.Join(errors.New("pool: redigo's pool gave a connection that it had not dialled"), c.Close())
	}
	s.giveBack = func() { _ = c.Close() }
	return s, nil
}

// connect dials for the redigo pool, and leaves the connection below in the
// session that the context carries: commands go to it directly, because the
// pool's wrapper looks each command's name up in a table.
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

func (o *poolDialer) close() error { return o.pool.Close() }

// flush sends what was written with Send, however long the server takes.
func (rc *rawConn) flush() error {
	if err := rc.redis.Flush(); err != nil {
		return err
	}
	if rc.writer == nil {
		return nil
	}
	return rc.writer.flush()
}

// tryFlush sends as much of it as the system takes in at once; owes tells of the rest.
func (rc *rawConn) tryFlush() error {
	if err := rc.redis.Flush(); err != nil {
		return err
	}
	return rc.writer.tryFlush()
}

// unfinished reports whether the peer has begun a reply and not ended it.
func (rc *rawConn) unfinished() bool { return rc.in != nil && rc.in.unfinished.Load() }

func (rc *rawConn) canTryFlush() bool { return rc.writer != nil && rc.writer.canTryFlush() }

func (rc *rawConn) hasUnsent() bool { return rc.writer != nil && rc.writer.hasUnsent() }

// rawConns are open ones that may have to be ended together.
type rawConns map[*rawConn]struct{}

// track adds one until it is given back. Called under mu, which guards the set.
func (all rawConns) track(s *rawConn, mu *sync.Mutex) {
	all[s] = struct{}{}
	put := s.giveBack
	s.giveBack = func() {
		mu.Lock()
		delete(all, s)
		mu.Unlock()
		put()
	}
}
