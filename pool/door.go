package pool

import (
	"cmp"
	"context"
	"errors"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/transport"
)

func init() {
	door.ServersOf = func(ctx context.Context, node any) (door.Servers, error) {
		n, ok := node.(*Node)
		if !ok {
			n = node.(voter).Node //nolint:forcetypeassert // there are no others
		}
		return n.kind.servers(ctx)
	}
}

// server is a node's server, or a master of a Cluster, as door shows it.
type server struct{ node *Node }

// Name returns the name in findings.
func (s server) Name() string { return s.node.label }

// Dial makes a connection, with the handshake of one that votes.
func (s server) Dial(ctx context.Context) (door.Conn, error) {
	n := s.node
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(n.life, cancel)() //nolint:contextcheck // both end it
	raw, f, err := n.prepared(ctx)
	switch {
	case err == nil:
		return &ownConn{node: n, raw: raw, facts: f.Facts, keep: context.AfterFunc(n.life, raw.Abort)}, nil //nolint:contextcheck // it lasts longer than ctx
	case n.life.Err() != nil:
		return nil, ErrClosed
	}
	return nil, transport.WithoutContext(err)
}

// ownConn is a connection that is not a pipeline's.
type ownConn struct {
	node  *Node
	raw   *transport.Conn
	facts command.Facts
	keep  func() bool // keeps the end of the node from closing it
}

// Facts returns what the handshake read.
func (c *ownConn) Facts() command.Facts { return c.facts }

// Faults returns what keeps the server from voting.
func (c *ownConn) Faults() []command.Fault { return c.node.kind.faults(c.facts) }

// Address returns the address that Sentinels named.
func (c *ownConn) Address() string { return c.raw.Address }

// Run sends the calls, and takes their replies. All of them must come within the dial timeout.
func (c *ownConn) Run(ctx context.Context, calls ...door.Call) error {
	ctx, cancel := context.WithTimeout(ctx, c.node.cfg.DialTimeout)
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
	case c.node.life.Err() != nil:
		return ErrClosed
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
