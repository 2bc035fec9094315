package pubsub

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// pingEvery is the interval of pings. A connection that receives nothing between two pings is
// ended.
const pingEvery = 5 * time.Second

// errUnwanted ends a connection without channels.
var errUnwanted = errors.New("no channels")

// conn is one connection of a subscription. Two goroutines use it: write alone writes to
// it, and read alone reads. End, which either may call, ends both.
type conn struct {
	of       *Subscription
	raw      *transport.Conn
	received atomic.Int64 // replies received
}

// write writes all commands: subscriptions when they change, and pings.
func (pc *conn) write() {
	// No count of replies is negative, so the first interval never counts as silent: the handshake
	// has just been answered.
	before := int64(-1)
	for {
		// The interval is measured by the clock, so a suspended machine checks the
		// connection soon after it wakes up.
		over, stop := timer.After(pc.of.clock, pingEvery)
		err := pc.writeUntil(over)
		stop()
		if err == nil {
			// Any reply proves that the server is alive, a message as well as a pong.
			now := pc.received.Load()
			err = pc.checkAlive(before, now)
			before = now
		}
		if err != nil {
			pc.raw.End(err)
			return
		}
	}
}

// writeUntil writes the changes of the channels until over. Without that bound, channels that
// change all the time would prevent the check of the connection.
func (pc *conn) writeUntil(over <-chan struct{}) error {
	for {
		select {
		case <-pc.raw.Dead():
			return pc.raw.Err()
		case <-over:
			return nil
		// One signal may stand for many changes. writeChanges takes all of them.
		case <-pc.of.wake:
			if err := pc.writeChanges(); err != nil {
				return err
			}
		}
	}
}

// checkAlive sends a ping. It ends the connection if there are no channels, or if nothing was
// received since the last call.
func (pc *conn) checkAlive(before, now int64) error {
	switch {
	case !pc.of.hasChannels():
		return errUnwanted
	case now == before:
		return transport.ErrSilent
	}
	return pc.send("PING")
}

// writeChanges subscribes to the channels that were added and unsubscribes from those that were
// removed, each in one command.
func (pc *conn) writeChanges() error {
	join, leave := pc.of.pendingChanges()
	var errs []error
	if len(join) > 0 {
		errs = append(errs, pc.send("SUBSCRIBE", join...))
	}
	if len(leave) > 0 {
		errs = append(errs, pc.send("UNSUBSCRIBE", leave...))
	}
	return oneline.Join(errs...)
}

// send writes one command at once: the subscription has few, and nothing to gain from batches. A write that the peer does
// not take is bounded here, because the writer itself would notice the silence.
func (pc *conn) send(command string, args ...any) error {
	stuck := pc.of.clock.AfterFunc(2*pingEvery, func() { pc.raw.End(transport.ErrSilent) })
	defer stuck.Stop()
	if err := pc.raw.Send(command, args); err != nil {
		return err
	}
	return pc.raw.Flush()
}

// read passes messages to the listener until the connection ends.
func (pc *conn) read() error {
	for {
		r, err := pc.raw.Receive()
		if err = cmp.Or(err, r.Err); err != nil {
			return pc.refusal(resp.Clean(err))
		}
		// Counted before it is used: the listener may take long, and the writer must not take that
		// for silence.
		pc.received.Add(1)
		pc.receive(r.Value)
	}
}

// errRefused ends a connection whose server refuses to subscribe, as it would on the next one.
var errRefused = errors.New("pool: server refuses to subscribe")

// refusal distinguishes such an end from others. An error after other replies belongs to a later
// command, such as UNSUBSCRIBE: the next connection may subscribe.
func (pc *conn) refusal(err error) error {
	code := resp.Code(err)
	lasts := code == "NOPERM" || code == "NOAUTH" || code == "ERR"
	if lasts && pc.received.Load() == 0 {
		return fmt.Errorf("%w (%w)", errRefused, err)
	}
	return err
}

// receive passes a message, or the confirmation of a subscription, to the listener. It ignores
// everything else, such as replies to pings.
func (pc *conn) receive(reply any) {
	list, ok := reply.([]any)
	if !ok || len(list) < 3 {
		return // a pong
	}
	// The server may be hostile. A value of another type becomes empty, which no case below
	// matches.
	kind, _ := redis.String(list[0], nil)
	channel, _ := redis.String(list[1], nil)
	switch kind {
	case "subscribe":
		pc.of.listener.Subscribed(channel)
	case "message":
		payload, _ := redis.String(list[2], nil)
		pc.of.listener.Message(channel, payload)
	}
}
