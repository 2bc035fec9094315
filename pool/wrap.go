package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// wrapConfig returns the Config of a wrapped pool, with a placeholder for the address, which the
// pool knows alone.
func wrapConfig(p *redis.Pool, cfg Config) (Config, error) {
	if err := notURL("the name", cfg.Name); err != nil {
		return Config{}, fmt.Errorf("pool: Wrap: %w", err)
	}
	switch {
	case cfg.Name == "":
		return Config{}, errors.New("pool: Wrap needs a name for the node")
	case p == nil:
		return Config{}, fmt.Errorf("pool: Wrap(%q): the pool is nil", cfg.Name)
	case p.DialContext == nil && p.Dial == nil:
		return Config{}, fmt.Errorf("pool: Wrap(%q): the pool has neither DialContext nor Dial", cfg.Name)
	case cfg.dials():
		return Config{}, fmt.Errorf("pool: Wrap(%q): the wrapped pool dials, so the Config must not say how", cfg.Name)
	}
	cfg.Address = "wrapped:0" // it is never dialled, and only satisfies the check of the Config
	return cfg.withDefaults()
}

// dials reports whether the Config has a field that says how to dial.
func (c Config) dials() bool {
	return c.Network != "" || c.Address != "" || c.Username != "" || c.Password != "" || c.Credentials != nil ||
		c.TLS != nil || c.Dial != nil || c.Sentinels != nil || len(c.Cluster) > 0
}

// wrappedPool dials by the functions of a service's own pool, but never takes a connection from
// the pool. Get may block, and a pooled connection may be in a state that its last user left
// (docs/dev/hazards.md H76, H78).
type wrappedPool struct {
	pool      *redis.Pool
	hung      *atomic.Int64
	dialSlots chan struct{} // holds one value for each dial that has not returned
}

// maxDials bounds the dials of a wrapped pool that are in progress. Without a bound, dials that
// hang would add a goroutine and a connection every dial timeout.
const maxDials = 8

// newWrappedPool makes the dialer of a wrapped pool.
func newWrappedPool(p *redis.Pool, hanging *atomic.Int64) *wrappedPool {
	return &wrappedPool{pool: p, hung: hanging, dialSlots: make(chan struct{}, maxDials)}
}

// dial runs the pool's dial function on a goroutine of its own, because the function may ignore
// ctx. A connection that is returned too late is closed.
func (w *wrappedPool) dial(ctx context.Context) (*rawConn, error) {
	type result struct {
		conn redis.Conn
		err  error
	}
	select {
	case w.dialSlots <- struct{}{}:
	// All places are taken by dials that hang: ctx bounds the wait for one.
	case <-ctx.Done():
		return nil, fmt.Errorf("pool: %d dials of the wrapped pool are hanging", maxDials)
	}
	// Unbuffered: either this call receives the connection, or the goroutine keeps it and closes
	// it. No connection is left in the channel.
	back, gone := make(chan result), make(chan struct{})
	go func() {
		c, err := w.connect(ctx)
		// The place is free once the dial has returned, however late.
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
		// raw, writer and in stay nil, because the dial function hides the socket.
		return newRawConn(r.conn), nil
	case <-ctx.Done():
		// Counted before gone is closed, so that the goroutine never subtracts first.
		w.hung.Add(1)
		close(gone)
		return nil, errors.New("pool: the wrapped pool's dial did not return in time")
	}
}

// connect calls the pool's dial function, whichever of the two it has.
func (w *wrappedPool) connect(ctx context.Context) (redis.Conn, error) {
	// redigo's own Get prefers DialContext as well.
	dial := w.pool.DialContext
	if dial == nil {
		dial = func(context.Context) (redis.Conn, error) { return w.pool.Dial() }
	}
	c, err := dial(ctx)
	if c == nil && err == nil {
		err = errors.New("pool: the wrapped pool's dial returned neither a connection nor an error")
	}
	if err != nil {
		if c != nil {
			_ = c.Close() // nobody else would
		}
		return nil, ofWrapped(err)
	}
	return c, nil
}

// ofWrapped returns the error of a wrapped pool's dial. If it is a server's error, only the code
// is shown: it may be the reply to AUTH, and repeat a password that only the pool knows.
func ofWrapped(err error) error {
	var re redis.Error
	if !errors.As(err, &re) {
		err = noGreeting(nil, false, err)
		return dialError{text: oneline.Printable(err.Error()), cause: err}
	}
	se := &resp.ServerError{Code: resp.Code(re)}
	se.Text = strings.TrimSpace(se.Code + " (the server's text is not shown: it may repeat a password)")
	return dialError{text: se.Text, cause: se}
}
