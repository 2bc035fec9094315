package pool

import (
	"cmp"
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/pubsub"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// prepared dials, greets the server and reads its facts, in one round trip. If it fails, no connection is left.
func (n *Node) prepared(ctx context.Context) (s *transport.Conn, f facts, err error) {
	if s, err = n.dialer.Dial(ctx); err != nil {
		return nil, f, err
	}
	replies, err := s.Greet(ctx, n.questions()...)
	// What a server says before it closes the connection explains more than the closing.
	if err = cmp.Or(f.read(replies, n.cfg.Database), err); err != nil {
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

// questions returns the calls whose replies facts.read reads, in this order.
func (n *Node) questions() []transport.Call {
	calls := []transport.Call{
		{Name: "CLIENT", Args: []any{"ID"}},
		{Name: "CLIENT", Args: []any{"INFO"}},
		{Name: "INFO"}, // all default sections, because INFO accepts several names since Redis 7 only
	}
	// Only single masters and masters behind Sentinels can have the guard.
	if n.kind.severalSlots() {
		calls = append(calls, transport.Call{Name: "GET", Args: []any{guard.Key}})
	}
	return calls
}

// read reads the replies to questions, of which some may be missing. It returns an error if the server can't vote
// at all in its state.
func (f *facts) read(replies []transport.Reply, selected int) (wrong error) {
	for i, r := range replies {
		err := unusable(r.Err)
		switch i {
		case 0:
			// Without an ID the old connection cannot be killed later: see unackedAcquires.
			f.clientID, _ = redis.Int64(r.Value, r.Err)
		case 1:
			f.Database = database(r.Value, r.Err, selected)
		case 2:
			if f.parse(r.Value, r.Err) {
				err = errLoading
			}
		case 3:
			f.parseMarker(r.Value, r.Err)
			err = nil // INFO reports all other errors of the server, and better
		}
		wrong = cmp.Or(wrong, err)
	}
	return wrong
}

// kill closes an older connection on the server. The caller sends undos only after kill has returned,
// so the server executes no unread command of the old connection after them (docs/dev/rules.md rule 6).
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

// unusable returns an error if the server can't vote at all in its state, or if err is not one of
// the server. A missing right is no such state: the examination reports it.
func unusable(err error) error {
	if err = resp.Clean(err); !resp.IsServerError(err) {
		return err
	}
	switch resp.Code(err) {
	// Such a server answers nothing else either. The dial fails, and is tried again later.
	case "LOADING", "NOAUTH", "MASTERDOWN":
		return err
	}
	return nil
}

// errLoading is the error of a server that reports in INFO that it is loading. A user that may not
// load scripts learns it from no other reply.
var errLoading error = &resp.ServerError{Code: "LOADING", Text: "LOADING the server is still loading its data"}
