package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// WrapOption changes how Wrap uses a pool. A nil one is skipped.
type WrapOption func(*Config)

// WithHardTimeout is Config.HardTimeout for a wrapped pool.
func WithHardTimeout(d time.Duration) WrapOption { return func(c *Config) { c.HardTimeout = d } }

// WithDialTimeout is Config.DialTimeout for a wrapped pool.
func WithDialTimeout(d time.Duration) WrapOption { return func(c *Config) { c.DialTimeout = d } }

// WithProxied is Config.Proxied for a wrapped pool.
func WithProxied() WrapOption { return func(c *Config) { c.Proxied = true } }

// WithClock is Config.Clock for a wrapped pool.
func WithClock(k clock.Clock) WrapOption { return func(c *Config) { c.Clock = k } }

// WithDatabase is the database that the wrapped pool's dial selects. A connection that
// is found on another one does not vote: locks of two databases do not exclude each
// other (docs/dev/hazards.md H39). Defaults to 0.
func WithDatabase(n int) WrapOption { return func(c *Config) { c.Database = n } }

// WithLogger is Config.Logger for a wrapped pool.
func WithLogger(l *slog.Logger) WrapOption { return func(c *Config) { c.Logger = l } }

func wrapConfig(name string, p *redis.Pool, opts []WrapOption) (Config, error) {
	if err := notURL("the name", name); err != nil {
		return Config{}, fmt.Errorf("pool: Wrap: %w", err)
	}
	switch {
	case name == "":
		return Config{}, errors.New("pool: Wrap needs a name for the node")
	case p == nil:
		return Config{}, fmt.Errorf("pool: Wrap(%q): the pool is nil", name)
	case p.DialContext == nil && p.Dial == nil:
		return Config{}, fmt.Errorf("pool: Wrap(%q): the pool has neither DialContext nor Dial", name)
	}
	cfg := Config{Name: name, Address: "wrapped:0"}
	for _, o := range opts {
		if o != nil {
			o(&cfg)
		}
	}
	return cfg.withDefaults()
}

// wrappedPool dials as a service's own pool does, but never takes a connection
// from it: Get may block, and what it gives may be in a state that somebody
// else left (docs/dev/hazards.md H76, H78).
type wrappedPool struct {
	pool      *redis.Pool
	hung      *atomic.Int64
	dialSlots chan struct{} // holds a value for each dial that has not returned
}

// maxDials is how many dials of a wrapped pool may be under way. Those that hang
// would otherwise add a goroutine and a connection every dial timeout.
const maxDials = 8

func newWrappedPool(p *redis.Pool, hanging *atomic.Int64) *wrappedPool {
	return &wrappedPool{pool: p, hung: hanging, dialSlots: make(chan struct{}, maxDials)}
}

// dial runs the pool's dial function on a goroutine of its own, because it may
// not heed ctx. A connection that comes back too late is closed.
func (w *wrappedPool) dial(ctx context.Context) (*rawConn, error) {
	type result struct {
		conn redis.Conn
		err  error
	}
	select {
	case w.dialSlots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("pool: %d dials of the wrapped pool hang", maxDials)
	}
	back, gone := make(chan result), make(chan struct{})
	go func() {
		c, err := w.connect(ctx)
		<-w.dialSlots
		select {
		case back <- result{c, err}:
		case <-gone:
			w.hung.Add(-1)
			if c != nil {
				_ = c.Close()
			}
		}
	}()
	select {
	case r := <-back:
		if r.err != nil {
			return nil, r.err
		}
		return &rawConn{redis: r.conn}, nil
	case <-ctx.Done():
		w.hung.Add(1)
		close(gone)
		return nil, errors.New("pool: the wrapped pool's dial did not return in time")
	}
}

func (w *wrappedPool) connect(ctx context.Context) (redis.Conn, error) {
	dial := w.pool.DialContext
	if dial == nil {
		dial = func(context.Context) (redis.Conn, error) { return w.pool.Dial() }
	}
	c, err := dial(ctx)
	if c == nil && err == nil {
		err = errors.New("pool: the wrapped pool dialled neither a connection nor an error")
	}
	if err != nil {
		err = ofWrapped(err)
	}
	return c, err
}

// ofWrapped is the error of a wrapped pool's dial. A server's error may be the answer to AUTH, and repeat
// a password that only the pool knows: of it the code is shown.
func ofWrapped(err error) error {
	var re redis.Error
	if !errors.As(err, &re) {
		return dialError{text: wire.Printable(err.Error()), cause: err}
	}
	se := &wire.ServerError{Code: code(string(re))}
	se.Text = strings.TrimSpace(se.Code + " (the server's text is not shown: it may repeat a password)")
	return dialError{text: se.Text, cause: se}
}

func (w *wrappedPool) close() error { return nil }
