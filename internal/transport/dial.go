package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Dial connects to the address, and bounds what the peer may send.
func (s *Settings) Dial(ctx context.Context) (*Conn, error) {
	conn, out, err := s.dialRaw(ctx)
	if err != nil {
		return nil, s.unreachable(err)
	}
	in := newBoundedConn(conn, ReplyLimits)
	c := newConn(s, redis.NewConn(in, 0, 0))
	c.writer, c.in = out, in
	return c, nil
}

// dialRaw connects; ctx bounds it. Commands go over conn. out is the layer below it, and the same
// connection without TLS. The watchdog closes the Conn inside out, because tls.Conn.Close may block
// for 5 s (docs/dev/rules.md rule 25). After an error no connection is left open.
func (s *Settings) dialRaw(ctx context.Context) (conn net.Conn, out *coalescingConn, err error) {
	// The coalescing layer is below TLS, so one system call carries all records of a batch.
	raw, err := s.socket(ctx)
	if err != nil {
		return nil, nil, s.dialFailed(err)
	}
	out = &coalescingConn{Conn: raw}
	if s.TLS == nil {
		return out, out, nil
	}
	// The handshake waits for replies to what it writes, and nothing flushes a buffer meanwhile.
	// passthrough needs no mutex: until dialRaw returns, no other goroutine has the connection.
	out.passthrough, out.mu = true, new(sync.Mutex)
	conn, err = s.encrypt(ctx, out)
	if err != nil {
		// encrypt may fail before the handshake, or in it without closing raw.
		_ = raw.Close()
		return nil, nil, s.dialFailed(err)
	}
	out.passthrough = false
	return conn, out, nil
}

// socket returns a connection from Settings.Connect, or a TCP or Unix one if that is nil.
func (s *Settings) socket(ctx context.Context) (net.Conn, error) {
	if s.Connect == nil {
		d := net.Dialer{KeepAliveConfig: keepAlive}
		conn, err := d.DialContext(ctx, s.Network, s.Address)
		return conn, withoutAddress(err, s.Address)
	}
	conn, err := s.Connect(ctx, s.Network, s.Address)
	if err == nil && conn == nil {
		err = errors.New("Config.Dial returned neither a connection nor an error")
	}
	return conn, err
}

// keepAlive detects within 30 s that a peer is gone, even on an idle connection
// (docs/dev/hazards.md H70). While commands are unanswered, HardTimeout ends the connection sooner.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// encrypt puts TLS over raw. HandshakeContext closes raw when ctx is done. It waits for the
// goroutine that it starts for that, so raw is not closed after a successful return.
func (s *Settings) encrypt(ctx context.Context, raw net.Conn) (net.Conn, error) {
	cfg, err := s.TLS(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("TLS configuration: %w", err)
	case cfg == nil:
		// A connection that was to be encrypted must never be used in plain text.
		return nil, errors.New("Config.TLS returned neither a configuration nor an error")
	}
	// Other dials may share the configuration, so only a copy is changed.
	cfg = cfg.Clone()
	// A renegotiation would write into the buffer, which it cannot flush, and the next caller that
	// writes would wait for the server.
	cfg.Renegotiation = tls.RenegotiateNever
	if cfg.ServerName == "" && s.Network != "unix" {
		cfg.ServerName = s.host()
	}
	conn := tls.Client(raw, cfg)
	if err := s.handshakeTLS(ctx, conn); err != nil {
		return nil, fmt.Errorf("TLS handshake: %w", handshakeError(err))
	}
	return conn, nil
}

// handshakeTLS runs a TLS handshake. A Redis without TLS neither answers it nor closes the connection.
// So a second connection asks in plain text if the handshake takes long, and an answer ends it.
func (s *Settings) handshakeTLS(ctx context.Context, conn *tls.Conn) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var probe sync.WaitGroup
	probe.Go(func() {
		if silentFor(ctx, probeAfter) && speaksPlain(ctx, s) {
			cancel(errNoTLS)
		}
	})
	err := conn.HandshakeContext(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errNoTLS) {
		err = errNoTLS
	}
	cancel(nil)
	probe.Wait()
	return err
}

// probeAfter is well below the node timeout, so that the first acquisition reports what was found.
const probeAfter = 100 * time.Millisecond

// silentFor waits, and reports whether ctx has not ended meanwhile.
func silentFor(ctx context.Context, d time.Duration) bool {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err() == nil
}

// host returns the host of the address, or the whole address if it has no port.
func (s *Settings) host() string {
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return s.Address
	}
	return host
}

// withoutAddress returns the error of a net.Dialer without the address that was dialled. If a name was
// resolved to another address, the error keeps that one.
func withoutAddress(err error, address string) error {
	var op *net.OpError
	var lookup *net.DNSError
	switch {
	case errors.As(err, &lookup):
		return DialError{Text: "lookup: " + lookup.Err, Cause: err}
	case errors.As(err, &op) && op.Addr != nil && op.Addr.String() == address:
		return DialError{Text: op.Err.Error(), Cause: err}
	}
	return err
}
