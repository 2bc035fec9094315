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

// session is a dialled connection before it becomes a link.
type session struct {
	redis redis.Conn
	raw   net.Conn     // what the watchdog closes; nil where a wrapped pool dialled
	out   *gather      // nil where a wrapped pool dialled
	in    *boundedConn // what redigo reads from; nil where a wrapped pool dialled
	put   func()       // gives the connection back to the pool it counts in; may be nil

	address string                // that Sentinels named; empty where there are none
	why     atomic.Pointer[error] // why it was cut
}

// cut ends the connection for a reason of our own.
func (s *session) cut(why error) {
	s.why.CompareAndSwap(nil, &why)
	s.abort()
}

// reason is why the connection ended, of which err is what was noticed.
func (s *session) reason(err error) error {
	if why := s.why.Load(); why != nil {
		return *why
	}
	return err
}

// abort ends the connection at once, whatever the server does. It is safe while
// others read and write.
func (s *session) abort() {
	if s.raw != nil {
		// Under TLS the TCP connection below: tls.Conn.Close may take 5 s.
		_ = s.raw.Close()
		return
	}
	_ = s.redis.Close()
}

// close gives an aborted connection back, when nobody reads or writes any more:
// redigo's pooled Close drains outstanding replies (docs/hazards.md H104).
func (s *session) close() {
	if s.put != nil {
		// A connection that redigo takes for a good one would go back among the idle.
		_ = s.redis.Close()
		s.put()
	}
}

// source is where a node's connections come from.
type source interface {
	// dial returns a connection on which nothing was said yet, or, from a wrapped
	// pool, what the pool's owner says on each.
	dial(ctx context.Context) (*session, error)
	close() error
}

// ownPool is a redigo pool for our own connections. Each is borrowed for its
// whole life. Pool.Wait stays false: with it, Close may panic (REDIGO.md).
type ownPool struct {
	cfg  *Config // not Config: as in Node
	pool *redis.Pool
}

// A dial's context carries where to leave the session, and the address that Sentinels
// named in place of the configured one.
type (
	sessionKey struct{}
	addressKey struct{}
)

func newOwnPool(cfg *Config) *ownPool {
	o := &ownPool{cfg: cfg}
	o.pool = &redis.Pool{MaxIdle: cfg.Connections, DialContext: o.connect}
	return o
}

func (o *ownPool) dial(ctx context.Context) (*session, error) {
	s := &session{}
	c, err := o.pool.GetContext(context.WithValue(ctx, sessionKey{}, s))
	if err != nil {
		return nil, err
	}
	if s.redis == nil {
		return nil, oneline.Join(errors.New("pool: redigo's pool gave a connection that it had not dialled"), c.Close())
	}
	s.put = func() { _ = c.Close() }
	return s, nil
}

// connect dials for the redigo pool, and leaves the connection below in the
// session that the context carries: commands go to it directly, because the
// pool's wrapper looks each command's name up in a table.
func (o *ownPool) connect(ctx context.Context) (redis.Conn, error) {
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
	if s, ok := ctx.Value(sessionKey{}).(*session); ok {
		s.redis, s.raw, s.out, s.in = c, out.Conn, out, in
	}
	return c, nil
}

func (o *ownPool) close() error { return o.pool.Close() }

// flush sends what was written with Send, however long the server takes.
func (s *session) flush() error {
	if err := s.redis.Flush(); err != nil {
		return err
	}
	if s.out == nil {
		return nil
	}
	return s.out.drain()
}

// offer sends as much of it as the system takes in at once; owes tells of the rest.
func (s *session) offer() error {
	if err := s.redis.Flush(); err != nil {
		return err
	}
	return s.out.offer()
}

// unfinished reports whether the peer has begun a reply and not ended it.
func (s *session) unfinished() bool { return s.in != nil && s.in.unfinished.Load() }

func (s *session) offers() bool { return s.out != nil && s.out.offers() }

func (s *session) owes() bool { return s.out != nil && s.out.owes() }

// sessions are open ones that may have to be ended together.
type sessions map[*session]struct{}

// keep adds one until it is given back. Called under mu, which guards the set.
func (all sessions) keep(s *session, mu *sync.Mutex) {
	all[s] = struct{}{}
	put := s.put
	s.put = func() {
		mu.Lock()
		delete(all, s)
		mu.Unlock()
		put()
	}
}
