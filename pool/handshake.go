package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// step is one command of the handshake.
type step struct {
	name string
	args []any
	take func(reply any, err error) error // uses the reply; its error ends the handshake
}

// greeted dials, authenticates and runs the steps behind that, in one round trip. If it fails, no connection is
// left.
func (n *Node) greeted(ctx context.Context, behind []step) (*rawConn, error) {
	s, err := n.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.greet(ctx, s, behind); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// greet does what greeted does behind the dial. abort is what ctx can do here: redigo's reads heed no
// context, and closing the socket unblocks them.
func (n *Node) greet(ctx context.Context, s *rawConn, behind []step) error {
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	// The credentials are read for each dial, so a rotated password needs no restart.
	steps, err := n.handshakeSteps(ctx)
	if err != nil {
		return err
	}
	if err := s.run(append(steps, behind...)); err != nil {
		return n.kind.unreachable(s.address, n.abortReason(ctx, n.noGreeting(ctx, s, err)))
	}
	return nil
}

// dialReady dials for a subscription, a Sentinel or a Cluster's slot map. It authenticates only,
// because none of these uses facts or scripts. The caller closes the connection.
func (n *Node) dialReady(ctx context.Context) (*rawConn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	return n.greeted(ctx, nil)
}

// abortReason returns the error of a handshake. Aborting the connection fails its read with an
// error of the network, which would hide that the dial timeout was the reason, or the cause of ctx.
func (n *Node) abortReason(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("pool: the handshake took longer than the dial timeout of %v", n.cfg.DialTimeout)
}

// namedError returns err with who named the address, and what to do if clients can't reach it. The reply of
// a server says enough by itself.
func namedError(err error, who, address, cure string) error {
	if isServerError(err) {
		return err
	}
	if strings.Contains(err.Error(), address) {
		address = "this address"
	}
	return &door.NamedError{Err: err, Named: who + " named " + address + ": if clients can't reach it, " + cure}
}

// handshakeSteps returns the steps that every connection begins with. A wrapped pool's dial function
// authenticates and selects the database itself.
func (n *Node) handshakeSteps(ctx context.Context) ([]step, error) {
	var steps []step
	// A second AUTH could replace the user that the service has chosen.
	if _, wrapped := n.dialer.(*wrappedPool); !wrapped {
		auth, err := n.auth(ctx)
		if err != nil {
			return nil, err
		}
		steps = append(steps, auth...)
	}
	return append(steps, step{"CLIENT", []any{"SETNAME", n.cfg.ClientName}, ignore}), nil
}

// preparing returns the steps that read the facts into f.
func (n *Node) preparing(f *facts) []step {
	steps := []step{
		{"CLIENT", []any{"ID"}, func(reply any, err error) error {
			// Without an ID the old connection cannot be killed later: see unackedAcquires.
			f.clientID, _ = redis.Int64(reply, err)
			return unusable(err)
		}},
		{"CLIENT", []any{"INFO"}, func(reply any, err error) error {
			f.Database = database(reply, err, n.cfg.Database)
			return unusable(err)
		}},
		// All default sections, because INFO accepts several names since Redis 7 only.
		{"INFO", nil, func(reply any, err error) error {
			if f.parse(reply, err) {
				return errLoading
			}
			return unusable(err)
		}},
	}
	// Only single masters and masters behind Sentinels can have the guard.
	if n.kind.severalSlots() {
		steps = append(steps, step{"GET", []any{guard.Key}, func(reply any, err error) error {
			f.parseMarker(reply, err)
			return nil // INFO reports all other errors of the server, and better
		}})
	}
	return steps
}

// auth returns the steps for AUTH and SELECT, with the credentials of this dial.
func (n *Node) auth(ctx context.Context) ([]step, error) {
	user, password, err := n.cfg.credentials(ctx)
	if err != nil {
		return nil, err
	}
	var steps []step
	switch {
	// AUTH with two words needs Redis 6. Without a user the old form is used.
	case user != "":
		steps = append(steps, step{"AUTH", []any{user, password}, required("AUTH")})
	// Without a user the password is that of the default user.
	case password != "":
		steps = append(steps, step{"AUTH", []any{password}, required("AUTH")})
	}
	if n.cfg.Database != 0 {
		steps = append(steps, step{"SELECT", []any{n.cfg.Database}, required("SELECT")})
	}
	return steps, nil
}

// run sends all steps in one flush and uses their replies in order. They are short: a socket accepts them
// before the server has read them.
func (rc *rawConn) run(steps []step) error {
	unsaid := rc.sendAll(steps)
	err := rc.receiveAll(steps) // after a failed write too: it fails, at the latest with its context
	if unsaid != nil && !isReply(err) {
		return unsaid
	}
	return err
}

// isServerError reports whether err is the reply of a server, and not a failure of the
// connection.
func isServerError(err error) bool {
	var se *resp.ServerError
	return errors.As(err, &se)
}

// isReply reports whether err comes from what a server sent.
func isReply(err error) bool { return isServerError(err) || errors.Is(err, ErrReplyLimit) }

// sendAll writes all steps.
func (rc *rawConn) sendAll(steps []step) error {
	for _, st := range steps {
		if err := rc.redis.Send(st.name, st.args...); err != nil {
			return err
		}
	}
	return rc.flush()
}

// receiveAll reads the replies to all steps, also after one has failed: the connection must not be
// left with replies unread. It returns the first error.
func (rc *rawConn) receiveAll(steps []step) error {
	var first, last error
	for _, st := range steps {
		reply, err := redis.ReceiveWithTimeout(rc.redis, 0)
		// The connection is broken, so no further reply can be matched to its step.
		if rc.redis.Err() != nil {
			// An error that the server sent before it closed the connection ("max number of
			// clients reached", "protected mode") explains more than the closing.
			if first == nil && last != nil {
				return fmt.Errorf("%w (%w)", last, err)
			}
			return cmp.Or(first, err)
		}
		// Before Withhold, which must know the password for AUTH's own reply.
		if st.name == "AUTH" {
			rc.password = fmt.Sprint(st.args[len(st.args)-1])
		}
		err = resp.Withhold(err, rc.password) // every reply: a service may answer AUTH late, out of step
		if err != nil {
			last = resp.Clean(err)
		}
		if err := st.take(reply, err); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// kill closes an older connection on the server. The caller sends undos only after kill has returned,
// so the server executes no unread command of the old connection after them (docs/dev/rules.md rule 6).
func (rc *rawConn) kill(ctx context.Context, id int64) (killed bool, err error) {
	stop := context.AfterFunc(ctx, rc.abort)
	defer stop()
	// CLIENT KILL answers after the old connection was ended on the server, so the order is certain
	// when run returns.
	err = rc.run([]step{{"CLIENT", []any{"KILL", "ID", id}, func(reply any, err error) error {
		// 0 means that no such client is left, which is as good. Any reply but a number
		// means that the user may not kill.
		_, notNumber := redis.Int64(reply, err)
		killed = notNumber == nil
		return nil
	}}})
	return killed, err
}

// ignore is for a step that changes nothing when it fails.
func ignore(any, error) error { return nil }

// required is for a step without which the connection can't be used.
func required(name string) func(any, error) error {
	return func(_ any, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("pool: %s: %w", name, resp.Clean(err))
	}
}

// unusable returns an error if the server can't vote at all in its state, or if err is not one of
// the server. A missing right is no such state: the examination reports it.
func unusable(err error) error {
	if err = resp.Clean(err); !isServerError(err) {
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
