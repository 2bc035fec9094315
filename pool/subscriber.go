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

// subscriber is one connection of a subscription.
type subscriber struct {
	s       *Subscription
	session *session
	dead    chan struct{}
	once    sync.Once
	err     error
	words   atomic.Int64 // replies heard
}

func (p *subscriber) fail(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.dead)
		p.session.abort()
	})
}

// write is the only one that writes: subscriptions as they are wanted, and pings.
func (p *subscriber) write() {
	before := int64(-1)
	for {
		over, stop := clock.After(p.s.node.cfg.Clock, pingEvery)
		err := p.sayUntil(over)
		stop()
		if err == nil {
			now := p.words.Load()
			err = p.look(before, now)
			before = now
		}
		if err != nil {
			p.fail(err)
			return
		}
	}
}

// sayUntil says what is wanted, as often as that changes, until it is time to look after
// the connection: who changes his mind all the time must not keep that from happening.
func (p *subscriber) sayUntil(over <-chan struct{}) error {
	for {
		select {
		case <-p.dead:
			return p.err
		case <-over:
			return nil
		case <-p.s.wake:
			if err := p.say(); err != nil {
				return err
			}
		}
	}
}

// look pings, unless nobody listens any more, or nothing was heard since the last time.
func (p *subscriber) look(before, now int64) error {
	switch {
	case !p.s.wants():
		return errUnwanted
	case now == before:
		return ErrSilent
	}
	return p.send("PING")
}

func (p *subscriber) say() error {
	join, leave := p.s.news()
	var errs []error
	if len(join) > 0 {
		errs = append(errs, p.send("SUBSCRIBE", join...))
	}
	if len(leave) > 0 {
		errs = append(errs, p.send("UNSUBSCRIBE", leave...))
	}
	return oneline.Join(errs...)
}

func (p *subscriber) send(command string, args ...any) error {
	if err := p.session.redis.Send(command, args...); err != nil {
		return err
	}
	return p.session.flush()
}

// read hands on what arrives, until the connection ends.
func (p *subscriber) read() error {
	for {
		reply, err := redis.ReceiveWithTimeout(p.session.redis, 0)
		if err != nil {
			return p.refusal(serverError(err))
		}
		p.words.Add(1)
		p.hear(reply)
	}
}

// errRefused ends a connection that may not subscribe, nor will one after it.
var errRefused = errors.New("pool: the server refuses to subscribe")

// refusal tells such an end from any other. An error behind other answers concerns a later
// command, as UNSUBSCRIBE: the next connection may subscribe.
func (p *subscriber) refusal(err error) error {
	lasts := answeredBy(err, "NOPERM") || answeredBy(err, "NOAUTH") || answeredBy(err, "ERR")
	if lasts && p.words.Load() == 0 {
		return fmt.Errorf("%w (%w)", errRefused, err)
	}
	return err
}

func (p *subscriber) hear(reply any) {
	list, ok := reply.([]any)
	if !ok || len(list) < 3 {
		return // a pong
	}
	kind, _ := redis.String(list[0], nil)
	channel, _ := redis.String(list[1], nil)
	switch kind {
	case "subscribe":
		p.s.listener.Subscribed(channel)
	case "message":
		payload, _ := redis.String(list[2], nil)
		p.s.listener.Message(channel, payload)
	}
}
