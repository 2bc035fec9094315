package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// dialRaw connects, bounded by ctx. Commands go over conn; out is the connection
// below it, the same one without TLS, whose own Conn a watchdog closes: tls.Conn.Close may
// block for 5 s (docs/dev/rules.md rule 25). On an error nothing is left open.
func (c Config) dialRaw(ctx context.Context) (conn net.Conn, out *coalescingConn, err error) {
	raw, err := c.connect(ctx)
	if err != nil {
		return nil, nil, c.dialFailed(err)
	}
	out = newCoalescingConn(raw)
	if c.TLS == nil {
		return out, out, nil
	}
	out.passthrough = true
	conn, err = c.encrypt(ctx, out)
	if err != nil {
		_ = raw.Close()
		return nil, nil, c.dialFailed(err)
	}
	out.passthrough = false
	return conn, out, nil
}

func (c Config) connect(ctx context.Context) (net.Conn, error) {
	if c.Dial == nil {
		d := net.Dialer{KeepAliveConfig: keepAlive}
		return d.DialContext(ctx, c.Network, c.Address)
	}
	conn, err := c.Dial(ctx, c.Network, c.Address)
	if err == nil && conn == nil {
		err = errors.New("Config.Dial returned neither a connection nor an error")
	}
	return conn, err
}

// keepAlive finds a peer that is gone within 30 s, also on a connection with
// nothing to say (docs/dev/hazards.md H70); with commands unanswered HardTimeout is sooner.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// encrypt puts TLS over raw. HandshakeContext closes raw when ctx is done, and
// waits for its own goroutine.
func (c Config) encrypt(ctx context.Context, raw net.Conn) (net.Conn, error) {
	cfg, err := c.TLS(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the TLS configuration: %w", err)
	case cfg == nil:
		// Never in the clear what was to be encrypted.
		return nil, errors.New("Config.TLS returned neither a configuration nor an error")
	}
	cfg = cfg.Clone()
	cfg.Renegotiation = tls.RenegotiateNever // its words would be held back, and the next caller wait for the server
	if cfg.ServerName == "" && c.Network != "unix" {
		cfg.ServerName = c.host()
	}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("the TLS handshake: %w", err)
	}
	return conn, nil
}

func (c Config) host() string {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil {
		return c.Address
	}
	return host
}

// credentials are the user and password of this dial.
func (c Config) credentials(ctx context.Context) (user, password string, err error) {
	if c.Credentials == nil {
		return c.Username, c.Password, nil
	}
	user, password, err = c.Credentials(ctx)
	if err != nil {
		return "", "", c.dialFailed(fmt.Errorf("the credentials: %w", err))
	}
	return user, password, nil
}

func (c Config) dialFailed(err error) error {
	e := dialError{text: fmt.Sprintf("pool: dialling %s: %s", c, wire.Printable(err.Error()))}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		e.cause = err
	}
	return e
}

// dialError is a node's trouble. It matches no context's error, even when our own
// dial timeout was the reason: a caller would take that for its own deadline and
// give up (docs/dev/hazards.md H111). Other causes are reached as usual.
type dialError struct {
	text  string
	cause error
}

func (e dialError) Error() string { return e.text }

func (e dialError) Unwrap() error { return e.cause }
