// Package visit makes connections to the servers of a node that carry no commands of locks. Package doctor and the command look at
// the servers over them. So they see what the node sees: its dial, its TLS, credentials and database.
package visit

import (
	"cmp"
	"context"
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Servers returns the servers of a *pool.Node, or of a Locker's node: see node.Shape.
func Servers(ctx context.Context, n any) (node.Servers, error) {
	_, shape := node.Of(n)
	return shape.Servers(ctx)
}

// Conn is a connection that its owner alone uses. It ends with the node at the latest. Its errors are no
// context's, but for the cause of a context that has one.
type Conn struct {
	of    node.Master
	raw   *transport.Conn
	facts command.Facts
	keep  func() bool // keeps the end of the node from closing it
}

// Call is a command, and what takes its reply. Of an error of the server, errors.As finds the *pool.ServerError.
type Call struct {
	Name string
	Args []any
	Take func(reply any, err error) error
}

// Dial connects to a server as its node does, with the handshake of a connection that votes. It ends with ctx, with the node, and
// after the dial timeout.
func Dial(ctx context.Context, m node.Master) (*Conn, error) {
	life := m.Parts.Life
	ctx, cancel := context.WithTimeout(ctx, m.Config.Settings.DialTimeout)
	defer cancel()
	defer context.AfterFunc(life, cancel)() //nolint:contextcheck // both end it
	conn, f, err := m.Dial(ctx)
	switch {
	case err == nil:
		if m.Config.OneSlot {
			conn.Bound(transport.MapLimits) // it may be asked for the slot map
		}
		return &Conn{of: m, raw: conn, facts: f.Facts, keep: context.AfterFunc(life, conn.Abort)}, nil //nolint:contextcheck // it lasts longer than ctx
	case life.Err() != nil:
		return nil, server.ErrClosed
	}
	return nil, transport.WithoutContext(err)
}

// Facts returns what the server said of itself when the connection was made.
func (c *Conn) Facts() command.Facts { return c.facts }

// Faults returns what keeps the server from voting by that.
func (c *Conn) Faults() []command.Fault { return c.of.Config.Faults(c.facts) }

// Address returns the address that the node's Sentinels named; it is empty without Sentinels.
func (c *Conn) Address() string { return c.raw.Address }

// Run sends all calls in one flush, and takes their replies in order. The first error of a Take is
// returned after all replies were read. When ctx is done, or the dial timeout is over, it closes the
// socket.
func (c *Conn) Run(ctx context.Context, calls ...Call) error {
	ctx, cancel := context.WithTimeout(ctx, c.of.Config.Settings.DialTimeout)
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
	case c.of.Parts.Life.Err() != nil:
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
func (c *Conn) Close() {
	c.keep()
	c.raw.Close()
}
