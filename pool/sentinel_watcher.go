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

// watcher keeps asking one Sentinel who the master is, and listens to what it announces,
// on two connections: a subscriber can ask nothing.
type watcher struct {
	resolver *sentinelResolver
	index    int   // in the list
	node     *Node // leads to the Sentinel; it has no lanes, and knows none of our scripts
	sub      *Subscription
	wake     chan struct{} // ask at once; holds one
	soon     int           // run's: questions in a row that an announcement brought forward
}

func newWatcher(f *sentinelResolver, place int, cfg Config) *watcher {
	y := &watcher{resolver: f, index: place, wake: make(chan struct{}, 1)}
	y.node = &Node{cfg: &cfg, dialer: newOwnPool(&cfg)}
	y.node.life, y.node.stop = context.WithCancel(context.Background())
	y.sub = y.node.Subscribe(y)
	return y
}

// begin starts both.
func (wa *watcher) begin() {
	wa.sub.Add(switchChannel)
	wa.node.workers.Go(func() { wa.run(wa.node.life) })
}

// close ends both, and waits until they have ended.
func (wa *watcher) close() error {
	wa.sub.Close()
	return wa.node.Close()
}

// wakeUp has it asked at once.
func (wa *watcher) wakeUp() {
	select {
	case wa.wake <- struct{}{}:
	default:
	}
}

// Subscribed has it asked: what was announced before was not heard.
func (wa *watcher) Subscribed(string) { wa.wakeUp() }

// Message has all of them asked when one announces another master for ours. What it says
// is no naming: nobody knows when it was true.
func (wa *watcher) Message(_, payload string) {
	if name, _, _ := strings.Cut(payload, " "); name == wa.resolver.node.cfg.Sentinels.Master {
		wa.resolver.wakeAll()
	}
}

// Down: it is asked all the same.
func (*watcher) Down(error) {}

// run asks until ctx is done, on one connection as long as that lasts.
func (wa *watcher) run(ctx context.Context) {
	redial := newBackoff(wa.node.cfg)
	for ctx.Err() == nil {
		answered, err := wa.pollConn(ctx)
		if ctx.Err() != nil {
			return
		}
		wa.resolver.recordFailure(wa.index, withoutContextError(err))
		if answered {
			redial.reset() // it is asked in turns: one that drops each connection is dialled no more often
		}
		redial.pause(ctx)
	}
}

// pollConn dials the Sentinel and asks it until the connection ends. It reports whether
// it ever answered.
func (wa *watcher) pollConn(ctx context.Context) (answered bool, err error) {
	s, err := wa.node.dialReady(ctx)
	if err != nil {
		return false, err
	}
	defer s.close()
	defer s.abort()
	for {
		n, err := wa.query(ctx, s)
		if err != nil {
			return answered, err
		}
		answered = true
		wa.resolver.recordAnswer(wa.index, n)
		if !wa.waitNextPoll(ctx) {
			return true, ErrClosed
		}
	}
}

// waitNextPoll waits until it is time to ask again; false when that is never.
func (wa *watcher) waitNextPoll(ctx context.Context) bool {
	often := wa.resolver.node.cfg.Sentinels.MaxAge / pollsPerMaxAge
	if wa.soon++; wa.soon > maxSoonAsked {
		wa.soon = 0
		pause(ctx, wa.node.cfg.Clock, min(askPause, often))
	}
	over, stop := clock.After(wa.node.cfg.Clock, often)
	defer stop()
	select {
	case <-over:
		wa.soon = 0
	case <-wa.wake:
	case <-ctx.Done():
		return false
	}
	return true
}

// query asks once. An answer that takes longer than it would count is none.
func (wa *watcher) query(ctx context.Context, s *rawConn) (n answer, err error) {
	of := wa.resolver.node.cfg.Sentinels
	late := wa.node.cfg.Clock.AfterFunc(of.MaxAge, s.abort)
	defer late.Stop()
	stop := context.AfterFunc(ctx, s.abort)
	defer stop()
	n = answer{sentinel: wa.node.cfg.Address, asked: wa.node.cfg.Clock.Now(), answered: true}
	err = s.run([]step{
		{"SENTINEL", []any{"GET-MASTER-ADDR-BY-NAME", of.Master}, func(reply any, err error) error {
			n.master, err = address(reply, err)
			return err
		}},
		{"SENTINEL", []any{"MASTER", of.Master}, func(reply any, err error) error {
			facts, err := redis.StringMap(reply, err)
			if err == nil { // it is not answered where the master is unknown, or the right is missing
				n.peers, _ = strconv.Atoi(facts["num-other-sentinels"])
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
