package pool

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/clock"
)

// askPause follows maxSoonAsked announcements: one Sentinel that announces without end could have
// all of them asked without a pause.
const askPause = 100 * time.Millisecond

// sentry keeps asking one Sentinel who the master is, and listens to what it announces,
// on two connections: a subscriber can ask nothing.
type sentry struct {
	follower *follower
	place    int   // in the list
	node     *Node // leads to the Sentinel; it has no lanes, and knows none of our scripts
	ear      *Subscription
	wake     chan struct{} // ask at once; holds one
	soon     int           // keepAsking's: questions in a row that an announcement brought forward
}

func newSentry(f *follower, place int, cfg Config) *sentry {
	y := &sentry{follower: f, place: place, wake: make(chan struct{}, 1)}
	y.node = &Node{cfg: &cfg, source: newOwnPool(&cfg)}
	y.node.life, y.node.end = context.WithCancel(context.Background())
	y.ear = y.node.Subscribe(y)
	return y
}

// begin starts both.
func (y *sentry) begin() {
	y.ear.Add(announcesSwitch)
	y.node.keep.Go(func() { y.keepAsking(y.node.life) })
}

// close ends both, and waits until they have ended.
func (y *sentry) close() error {
	y.ear.Close()
	return y.node.Close()
}

// poke has it asked at once.
func (y *sentry) poke() {
	select {
	case y.wake <- struct{}{}:
	default:
	}
}

// Subscribed has it asked: what was announced before was not heard.
func (y *sentry) Subscribed(string) { y.poke() }

// Message has all of them asked when one announces another master for ours. What it says
// is no naming: nobody knows when it was true.
func (y *sentry) Message(_, payload string) {
	if name, _, _ := strings.Cut(payload, " "); name == y.follower.node.cfg.Sentinels.Master {
		y.follower.poke()
	}
}

// Down: it is asked all the same.
func (*sentry) Down(error) {}

// keepAsking asks until ctx is done, on one connection as long as that lasts.
func (y *sentry) keepAsking(ctx context.Context) {
	redial := newBackoff(y.node.cfg)
	for ctx.Err() == nil {
		answered, err := y.interview(ctx)
		if ctx.Err() != nil {
			return
		}
		y.follower.failed(y.place, severed(err))
		if answered {
			redial.reset() // it is asked in turns: one that drops each connection is dialled no more often
		}
		redial.pause(ctx)
	}
}

// interview dials the Sentinel and asks it until the connection ends. It reports whether
// it ever answered.
func (y *sentry) interview(ctx context.Context) (answered bool, err error) {
	s, err := y.node.greeted(ctx)
	if err != nil {
		return false, err
	}
	defer s.close()
	defer s.abort()
	for {
		n, err := y.ask(ctx, s)
		if err != nil {
			return answered, err
		}
		answered = true
		y.follower.note(y.place, n)
		if !y.rest(ctx) {
			return true, ErrClosed
		}
	}
}

// rest waits until it is time to ask again; false when that is never.
func (y *sentry) rest(ctx context.Context) bool {
	often := y.follower.node.cfg.Sentinels.MaxAge / asksInSettle
	if y.soon++; y.soon > maxSoonAsked {
		y.soon = 0
		pause(ctx, y.node.cfg.Clock, min(askPause, often))
	}
	over, stop := clock.After(y.node.cfg.Clock, often)
	defer stop()
	select {
	case <-over:
		y.soon = 0
	case <-y.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// ask asks once. An answer that takes longer than it would count is none.
func (y *sentry) ask(ctx context.Context, s *session) (n naming, err error) {
	of := y.follower.node.cfg.Sentinels
	late := y.node.cfg.Clock.AfterFunc(of.MaxAge, s.abort)
	defer late.Stop()
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	n = naming{sentinel: y.node.cfg.Address, asked: y.node.cfg.Clock.Now(), heard: true}
	err = s.run([]step{
		{"SENTINEL", []any{"GET-MASTER-ADDR-BY-NAME", of.Master}, func(reply any, err error) error {
			n.master, err = address(reply, err)
			return err
		}},
		{"SENTINEL", []any{"MASTER", of.Master}, func(reply any, err error) error {
			facts, err := redis.StringMap(reply, err)
			if err == nil { // it is not answered where the master is unknown, or the right is missing
				n.others, _ = strconv.Atoi(facts["num-other-sentinels"])
			}
			return nil
		}},
	})
	return n, err
}

// address reads host and port; none where the Sentinel knows of no such master.
func address(reply any, err error) (string, error) {
	parts, err := redis.Strings(reply, err)
	switch {
	case errors.Is(err, redis.ErrNil) || err != nil && answeredBy(serverError(err), "IDONTKNOW"):
		return "", nil
	case err != nil:
		return "", serverError(err)
	case len(parts) != 2:
		return "", errNoAddress
	}
	return endpoint(parts[0], parts[1])
}
