package pool

import (
	"cmp"
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/pubsub"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// prepared dials, greets the server and reads its facts, in one round trip. If it fails, no connection is left.
func (n *Node) prepared(ctx context.Context) (s *transport.Conn, f session.Facts, err error) {
	if s, err = n.dialer.Dial(ctx); err != nil {
		return nil, f, err
	}
	// Only single masters and masters behind Sentinels can have the guard, and so a marker.
	replies, err := s.Greet(ctx, session.Questions(n.kind.severalSlots())...)
	// What a server says before it closes the connection explains more than the closing.
	if err = cmp.Or(f.Read(replies, n.cfg.Database), err); err != nil {
		s.Close()
		return nil, f, err
	}
	return s, f, nil
}

// dialReady dials for a subscription, a Sentinel or a Cluster's slot map. It authenticates only,
// because none of these uses facts or scripts. The caller closes the connection.
func (n *Node) dialReady(ctx context.Context) (*transport.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	s, err := n.dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.Greet(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// subscribe returns a subscription to the node's server.
func (n *Node) subscribe(listener command.Listener) *pubsub.Subscription {
	return pubsub.New(n.life, n.settings, n.dialReady, listener, n.log)
}

// namedError returns err with who named the address, and what to do if clients can't reach it. The reply of
// a server says enough by itself.
func namedError(err error, who, address, cure string) error {
	if resp.IsServerError(err) {
		return err
	}
	if strings.Contains(err.Error(), address) {
		address = "this address"
	}
	return &door.NamedError{Err: err, Named: who + " named " + address + ": if clients can't reach it, " + cure}
}

// kill closes an older connection on the server (docs/dev/rules.md rule 6).
func kill(ctx context.Context, s *transport.Conn, id int64) (killed bool, err error) {
	// CLIENT KILL answers after the old connection was ended on the server, so the order is certain
	// when Ask returns.
	replies, err := s.Ask(ctx, transport.Call{Name: "CLIENT", Args: []any{"KILL", "ID", id}})
	if err != nil {
		return false, err
	}
	// 0 means that no such client is left, which is as good. Any reply but a number
	// means that the user may not kill.
	_, notNumber := redis.Int64(replies[0].Value, replies[0].Err)
	return notNumber == nil, nil
}
