package pool

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// pingEvery is how often a subscription's connection is asked whether it lives. Two
// periods without a word end it.
const pingEvery = 5 * time.Second

// errUnwanted ends a connection that nobody listens on.
var errUnwanted = errors.New("no channel is wanted")

// pubsubConn is one connection of a subscription.
type pubsubConn struct {
	s        *Subscription
	raw      *rawConn
	dead     chan struct{}
	once     sync.Once
	err      error
	received atomic.Int64 // replies heard
}

func (ps *pubsubConn) fail(err error) {
	ps.once.Do(func() {
		ps.err = err
		close(ps.dead)
		ps.raw.abort()
	})
}

// write is the only one that writes: subscriptions as they are wanted, and pings.
func (ps *pubsubConn) write() {
	before := int64(-1)
	for {
		over, stop := clock.After(ps.s.node.cfg.Clock, pingEvery)
		err := ps.writeUntil(over)
		stop()
		if err == nil {
			now := ps.received.Load()
			err = ps.checkAlive(before, now)
			before = now
		}
		if err != nil {
			ps.fail(err)
			return
		}
	}
}

// writeUntil says what is wanted, as often as that changes, until it is time to look after
// the connection: who changes his mind all the time must not keep that from happening.
func (ps *pubsubConn) writeUntil(over <-chan struct{}) error {
	for {
		select {
		case <-ps.dead:
			return ps.err
		case <-over:
			return nil
		case <-ps.s.wake:
			if err := ps.say(); err != nil {
				return err
			}
		}
	}
}

// checkAlive pings, unless nobody listens any more, or nothing was heard since the last time.
func (ps *pubsubConn) checkAlive(before, now int64) error {
	switch {
	case !ps.s.hasChannels():
		return errUnwanted
	case now == before:
		return ErrSilent
	}
	return ps.send("PING")
}

func (ps *pubsubConn) say() error {
	join, leave := ps.s.pendingChanges()
	var errs []error
	if len(join) > 0 {
		errs = append(errs, ps.send("SUBSCRIBE", join...))
	}
	if len(leave) > 0 {
		errs = append(errs, ps.send("UNSUBSCRIBE", leave...))
	}
	return oneline.Join(errs...)
}

func (ps *pubsubConn) send(command string, args ...any) error {
	if err := ps.raw.redis.Send(command, args...); err != nil {
		return err
	}
	return ps.raw.flush()
}

// read hands on what arrives, until the connection ends.
func (ps *pubsubConn) read() error {
	for {
		reply, err := redis.ReceiveWithTimeout(ps.raw.redis, 0)
		if err != nil {
			return ps.refusal(serverError(withheld(err, ps.raw.password)))
		}
		ps.received.Add(1)
		ps.receive(reply)
	}
}

// errRefused ends a connection that may not subscribe, nor will one after it.
var errRefused = errors.New("pool: the server refuses to subscribe")

// refusal tells such an end from any other. An error behind other answers concerns a later
// command, as UNSUBSCRIBE: the next connection may subscribe.
func (ps *pubsubConn) refusal(err error) error {
	lasts := answeredBy(err, "NOPERM") || answeredBy(err, "NOAUTH") || answeredBy(err, "ERR")
	if lasts && ps.received.Load() == 0 {
		return fmt.Errorf("%w (%w)", errRefused, err)
	}
	return err
}

func (ps *pubsubConn) receive(reply any) {
	list, ok := reply.([]any)
	if !ok || len(list) < 3 {
		return // a pong
	}
	kind, _ := redis.String(list[0], nil)
	channel, _ := redis.String(list[1], nil)
	switch kind {
	case "subscribe":
		ps.s.listener.Subscribed(channel)
	case "message":
		payload, _ := redis.String(list[2], nil)
		ps.s.listener.Message(channel, payload)
	}
}
