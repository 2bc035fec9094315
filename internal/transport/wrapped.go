package transport

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

// Wrapped dials by the functions of a service's own pool, but never takes a connection from
// the pool. Get may block, and a pooled connection may be in a state that its last user left
// (docs/dev/hazards.md H76, H78).
type Wrapped struct {
	settings  *Settings
	pool      *redis.Pool
	hung      *atomic.Int64
	dialSlots chan struct{} // holds one value for each dial that has not returned
}

// maxDials bounds the dials of a wrapped pool that are in progress. Without a bound, dials that
// hang would add a goroutine and a connection every dial timeout.
const maxDials = 8

// NewWrapped makes the dialer of a wrapped pool. It counts the dials that hang.
func NewWrapped(s *Settings, p *redis.Pool, hanging *atomic.Int64) *Wrapped {
	return &Wrapped{settings: s, pool: p, hung: hanging, dialSlots: make(chan struct{}, maxDials)}
}

// Dial runs the pool's dial function on a goroutine of its own, because the function may ignore
// ctx. A connection that is returned too late is closed.
func (w *Wrapped) Dial(ctx context.Context) (*Conn, error) {
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
		// writer and in stay nil, because the dial function hides the socket.
		return newConn(w.settings, r.conn), nil
	case <-ctx.Done():
		// Counted before gone is closed, so that the goroutine never subtracts first.
		w.hung.Add(1)
		close(gone)
		return nil, errors.New("pool: the wrapped pool's dial did not return in time")
	}
}

// connect calls the pool's dial function, whichever of the two it has.
func (w *Wrapped) connect(ctx context.Context) (redis.Conn, error) {
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
			_ = c.Close() // Dial has returned, so no other goroutine has it
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
		err = noGreeting(false, true, false, err)
		return DialError{Text: oneline.Printable(err.Error()), Cause: err}
	}
	se := &resp.ServerError{Code: resp.Code(re)}
	se.Text = strings.TrimSpace(se.Code + " (the server's text is not shown: it may repeat a password)")
	return DialError{Text: se.Text, Cause: se}
}
