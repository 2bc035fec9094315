package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// step is one command of the handshake and what its reply is for.
type step struct {
	name string
	args []any
	take func(reply any, err error) error
}

// handshake says who we are, reads the facts and loads the scripts, in one round
// trip. It is bounded by ctx: when that is done the connection is aborted.
func (n *Node) handshake(ctx context.Context, s *rawConn) (f facts, err error) {
	err = n.greet(ctx, s, n.preparing(&f))
	return f, err
}

// greet says who we are, and takes the steps that follow, in one round trip.
func (n *Node) greet(ctx context.Context, s *rawConn, behind []step) error {
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	steps, err := n.handshakeSteps(ctx)
	if err != nil {
		return err
	}
	if err := s.run(append(steps, behind...)); err != nil {
		return n.abortReason(ctx, err)
	}
	return nil
}

// dialReady dials for what is no lock's: a subscription, a Sentinel, a Cluster's map. It says
// who we are and no more: facts and scripts are of no use there.
func (n *Node) dialReady(ctx context.Context) (*rawConn, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	s, err := n.dialer.dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := n.greet(ctx, s, nil); err != nil {
		s.abort()
		s.close()
		return nil, err
	}
	return s, nil
}

// abortReason tells our own deadline from the network's errors.
func (n *Node) abortReason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("pool: the handshake took longer than the dial timeout of %v", n.cfg.DialTimeout)
	}
	return err
}

func (n *Node) handshakeSteps(ctx context.Context) ([]step, error) {
	var steps []step
	if _, wrapped := n.dialer.(*wrappedPool); !wrapped {
		auth, err := n.auth(ctx)
		if err != nil {
			return nil, err
		}
		steps = append(steps, auth...)
	}
	return append(steps, step{"CLIENT", []any{"SETNAME", n.cfg.ClientName}, ignore}), nil
}

// preparing are the steps that read the facts and load the scripts.
func (n *Node) preparing(f *facts) []step {
	steps := []step{
		{"CLIENT", []any{"ID"}, func(reply any, err error) error {
			f.clientID, _ = redis.Int64(reply, optionalStep(err))
			return unusable(err)
		}},
		{"CLIENT", []any{"INFO"}, func(reply any, err error) error {
			f.Database = database(reply, err, n.cfg.Database)
			return unusable(err)
		}},
		// All of its usual parts: several by name are one command since Redis 7 only.
		{"INFO", nil, func(reply any, err error) error {
			f.parse(reply, err)
			if isLoading(reply) {
				return errLoading
			}
			return unusable(err)
		}},
		{"TIME", nil, func(reply any, err error) error {
			f.Time = serverTime(reply, err)
			return unusable(err)
		}},
	}
	if n.shard == nil { // in a Cluster it would be one of all servers
		steps = append(steps, step{"GET", []any{wire.MarkerKey}, func(reply any, err error) error {
			f.parseMarker(reply, err)
			return nil // what else it answers INFO says better
		}}, step{"EXISTS", []any{wire.OldMarkerKey}, func(reply any, err error) error {
			f.parseOldMarker(reply, err)
			return nil
		}})
	}
	for _, script := range wire.Scripts() {
		steps = append(steps, step{"SCRIPT", []any{"LOAD", script.Source}, func(_ any, err error) error {
			return unusable(err) // where SCRIPT is denied, NOSCRIPT brings the text along
		}})
	}
	return steps
}

// auth are the steps that a wrapped pool's dial does itself.
func (n *Node) auth(ctx context.Context) ([]step, error) {
	user, password, err := n.cfg.credentials(ctx)
	if err != nil {
		return nil, err
	}
	var steps []step
	switch {
	case user != "":
		steps = append(steps, step{"AUTH", []any{user, password}, required("AUTH")})
	case password != "":
		steps = append(steps, step{"AUTH", []any{password}, required("AUTH")})
	}
	if n.cfg.Database != 0 {
		steps = append(steps, step{"SELECT", []any{n.cfg.Database}, required("SELECT")})
	}
	return steps, nil
}

// run sends all steps in one flush and takes the replies in order. It writes beside
// the reading: a connection without a buffer (net.Pipe) takes the last step only
// when the first one's reply was read.
func (rc *rawConn) run(steps []step) error {
	said := make(chan struct{})
	var unsaid error // readable once said is closed
	go func() {
		unsaid = rc.sendAll(steps)
		close(said)
		if unsaid != nil {
			rc.abort()
		}
	}()
	err := rc.receiveAll(steps)
	if err == nil {
		<-said
		return unsaid
	}
	select {
	case <-said:
		// The server's own words are a better reason than that it no longer listened.
		if unsaid != nil && !isServerError(err) {
			return unsaid
		}
	default:
		rc.abort() // ends a write that is stuck
		<-said
	}
	return err
}

func isServerError(err error) bool {
	var se *wire.ServerError
	return errors.As(err, &se)
}

func (rc *rawConn) sendAll(steps []step) error {
	for _, st := range steps {
		if err := rc.redis.Send(st.name, st.args...); err != nil {
			return err
		}
	}
	return rc.flush()
}

func (rc *rawConn) receiveAll(steps []step) error {
	var first, last error
	for _, st := range steps {
		reply, err := redis.ReceiveWithTimeout(rc.redis, 0)
		if rc.redis.Err() != nil {
			// What the server said before it hung up ("max number of clients reached",
			// "protected mode") is worth more than that it did.
			if first == nil && last != nil {
				return fmt.Errorf("%w (%w)", last, err)
			}
			return cmp.Or(first, err)
		}
		if st.name == "AUTH" {
			rc.password = fmt.Sprint(st.args[len(st.args)-1])
		}
		err = withheld(err, rc.password) // a service that is out of step answers AUTH later
		if err != nil {
			last = serverError(err)
		}
		if err := st.take(reply, err); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// kill ends an older connection on the server, so that nothing that it still
// holds unread is executed behind the undos that follow (docs/dev/rules.md rule 6).
func (rc *rawConn) kill(ctx context.Context, id int64) (killed bool, err error) {
	stop := context.AfterFunc(ctx, rc.abort)
	defer stop()
	err = rc.run([]step{{"CLIENT", []any{"KILL", "ID", id}, func(reply any, err error) error {
		// 0 means that no such client is left, which is as good; anything else
		// than a number, that we may not kill.
		_, notNumber := redis.Int64(reply, err)
		killed = notNumber == nil
		return nil
	}}})
	return killed, err
}

func ignore(any, error) error { return nil }

// required is for a step without which nothing goes on.
func required(name string) func(any, error) error {
	return func(_ any, err error) error {
		if err == nil {
			return nil
		}
		return fmt.Errorf("pool: %s: %w", name, serverError(err))
	}
}

// withheld returns a server's error without its text if the text repeats the password. The password may have any
// length: replacing only a short one would show it by the gaps.
func withheld(err error, password string) error {
	var re redis.Error
	if !errors.As(err, &re) || password == "" || !strings.Contains(withoutArgs(re), password) {
		return err
	}
	c := code(string(re))
	if strings.Contains(c, password) {
		c = "ERR"
	}
	return redis.Error(strings.TrimSpace(c + " (the server's text is not shown: it repeats the password)"))
}

// unusable passes on the states in which a server can't vote at all. A right that
// is missing is not one of them.
func unusable(err error) error {
	var re redis.Error
	if !errors.As(err, &re) {
		return err
	}
	switch code(string(re)) {
	case "LOADING", "NOAUTH", "MASTERDOWN":
		return serverError(err)
	}
	return nil
}

// optionalStep turns a refusal into an empty reply's error.
func optionalStep(err error) error {
	if err != nil {
		return redis.ErrNil
	}
	return nil
}

// errLoading is a server that says it by INFO alone: whoever may not load scripts
// hears it from no other answer.
var errLoading error = &wire.ServerError{Code: "LOADING", Text: "LOADING the server is still loading its data"}
