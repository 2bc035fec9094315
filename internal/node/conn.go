package node

import (
	"cmp"
	"context"
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Name returns the server's name in findings.
func (m Master) Name() string { return m.cfg.Label }

// Dial makes a connection, with the handshake of one that votes.
func (m Master) Dial(ctx context.Context) (door.Conn, error) {
	life := m.parts.Life
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Settings.DialTimeout)
	defer cancel()
	defer context.AfterFunc(life, cancel)() //nolint:contextcheck // both end it
	conn, f, err := m.Server.Dial(ctx)
	switch {
	case err == nil:
		return &ownConn{of: m, raw: conn, facts: f.Facts, keep: context.AfterFunc(life, conn.Abort)}, nil //nolint:contextcheck // it lasts longer than ctx
	case life.Err() != nil:
		return nil, server.ErrClosed
	}
	return nil, transport.WithoutContext(err)
}

// ownConn is a connection that carries no commands of locks.
type ownConn struct {
	of    Master
	raw   *transport.Conn
	facts command.Facts
	keep  func() bool // keeps the end of the node from closing it
}

// Facts returns what the handshake read.
func (c *ownConn) Facts() command.Facts { return c.facts }

// Faults returns what keeps the server from voting.
func (c *ownConn) Faults() []command.Fault { return c.of.cfg.Faults(c.facts) }

// Address returns the address that Sentinels named.
func (c *ownConn) Address() string { return c.raw.Address }

// Run sends the calls, and takes their replies. All of them must come within the dial timeout.
func (c *ownConn) Run(ctx context.Context, calls ...door.Call) error {
	ctx, cancel := context.WithTimeout(ctx, c.of.cfg.Settings.DialTimeout)
	defer cancel()
	asked := make([]transport.Call, len(calls))
	for i, call := range calls {
		asked[i] = transport.Call{Name: call.Name, Args: call.Args}
	}
	replies, err := c.raw.Ask(ctx, asked...)
	var wrong error
	for i, r := range replies {
		wrong = cmp.Or(wrong, calls[i].Take(r.Value, resp.Clean(r.Err)))
	}
	err = cmp.Or(wrong, err)
	switch {
	case err == nil:
		return nil
	case c.of.parts.Life.Err() != nil:
		return server.ErrClosed
	case ctx.Err() == nil:
		return transport.WithoutContext(err)
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return cause
	}
	return errors.New("pool: timeout or end of the context before the server answered")
}

// Close ends the connection.
func (c *ownConn) Close() {
	c.keep()
	c.raw.Close()
}
