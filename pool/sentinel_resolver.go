package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// sentinelResolver is where a node stands with its Sentinels (docs/dev/rules.md rule 29): it dials the
// master that they name, ends connections to any other, and says whether the one that a
// connection leads to may vote.
type sentinelResolver struct {
	node     *Node
	dialer   *poolDialer
	watchers []*watcher

	mu       sync.Mutex // guards what follows; nobody is called under it
	answers  []answer
	master   string        // that a majority named last
	until    clock.Instant // … and until when that counts
	why      error         // why nobody votes; nil until somebody asks for it
	sessions rawConns
	changed  chan struct{} // closed when something was said; made anew by who waits for it
	switches int64
}

func newSentinelResolver(n *Node) *sentinelResolver {
	f := &sentinelResolver{node: n, dialer: newOwnPool(n.cfg), sessions: make(rawConns)}
	for i, a := range n.cfg.Sentinels.Addresses {
		f.answers = append(f.answers, answer{sentinel: a})
		f.watchers = append(f.watchers, newWatcher(f, i, n.cfg.sentinel(a)))
	}
	return f
}

func (sr *sentinelResolver) begin() {
	for _, y := range sr.watchers {
		y.begin()
	}
}

func (sr *sentinelResolver) wakeAll() {
	for _, y := range sr.watchers {
		y.wakeUp()
	}
}

// close ends all that was begun. The connections to the master have ended before.
func (sr *sentinelResolver) close() error {
	var errs []error
	for _, y := range sr.watchers {
		errs = append(errs, y.close())
	}
	return oneline.Join(append(errs, sr.dialer.close())...)
}

// recordAnswer books what a Sentinel answered.
func (sr *sentinelResolver) recordAnswer(place int, n answer) {
	sr.mu.Lock()
	sr.answers[place] = n
	cut, from := sr.recompute()
	to := sr.master
	sr.mu.Unlock()
	for _, s := range cut {
		s.closeFor(errSwitched)
	}
	if from != "" {
		sr.node.log(fmt.Sprintf("its master is %s, and was %s", to, from), nil)
	}
}

// recordFailure books that a Sentinel could not be asked. What it said before counts until it is
// too old.
func (sr *sentinelResolver) recordFailure(place int, err error) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	sr.answers[place].err, sr.answers[place].answered = err, true
	sr.recompute()
}

// recompute finds the master of what was said, and lists the connections that lead to
// another one. From is the one before, if there was one. Called under mu.
func (sr *sentinelResolver) recompute() (cut []*rawConn, from string) {
	sr.why = nil
	if sr.changed != nil {
		close(sr.changed)
		sr.changed = nil
	}
	s := sr.node.cfg.Sentinels
	master, until, ok := majorityMaster(sr.answers, s.majority(), s.maxAge())
	if !ok || !sr.node.cfg.Clock.Now().Before(until) {
		sr.until = 0
		return nil, ""
	}
	sr.until = until
	if master == sr.master {
		return nil, ""
	}
	if from, sr.master = sr.master, master; from != "" {
		sr.switches++
	}
	for s := range sr.sessions {
		if s.address != master {
			cut = append(cut, s)
		}
	}
	return cut, from
}

// current is the master that counts now. Called under mu.
func (sr *sentinelResolver) current() (master string, ok bool) {
	return sr.master, sr.until != 0 && sr.node.cfg.Clock.Now().Before(sr.until)
}

// rejectReason is why a command is not sent on a connection to that address: no majority has
// named it in time, or it is not of clients that would wait out what a failover may have
// lost. Without Sentinels it refuses nothing. Exceptions that are made for unfit nodes are
// none from this.
func (sr *sentinelResolver) rejectReason(c *wire.Command, address string) error {
	if sr == nil {
		return nil
	}
	if !c.Informational && !c.NodeSet.KnowsMaxAge(sr.node.cfg.Name, sr.node.cfg.Sentinels.MaxAge) {
		return errNoMajorityMaster
	}
	return sr.voteError(address)
}

// voteError is why an answer from there is no vote.
func (sr *sentinelResolver) voteError(address string) error {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	switch master, ok := sr.current(); {
	case ok && master == address:
		return nil
	case ok:
		return errSwitched
	}
	return sr.reason()
}

// reason is made once for all commands that it is told to. Called under mu.
func (sr *sentinelResolver) reason() error {
	if sr.why == nil {
		s := sr.node.cfg.Sentinels
		sr.why = fmt.Errorf("pool: %w: %s", wire.ErrUnfit, explainNoMaster(sr.node.cfg.Name, s.Master, sr.answers, s.majority(), s.MaxAge))
	}
	return sr.why
}

var (
	errSwitched         = errors.New("pool: the Sentinels name another master now")
	errNoMajorityMaster = fmt.Errorf("pool: %w: behind Sentinels it votes under the restart guard alone, whose quarantines last its Settle longer", wire.ErrUnfit)
)

// discardStale turns a grant that arrived when no majority named the master any more into an
// answer that does not count. It was sent while one did, and what is counted is counted
// from before that: nothing would be lost by taking it. But then it would have to stay
// true of all that is ever counted.
func (sr *sentinelResolver) discardStale(c *wire.Command, address string, r wire.Reply) wire.Reply {
	if sr == nil || r.Outcome != wire.Granted || !votes(c) {
		return r
	}
	if err := sr.voteError(address); err != nil {
		return wire.Reply{Outcome: wire.Unknown, Err: err}
	}
	return r
}

// votes reports whether a command's answer counts towards a quorum of a lock.
func votes(c *wire.Command) bool {
	switch c.Op {
	case wire.Acquire, wire.Confirm, wire.Repair, wire.Extend, wire.Inspect, wire.Ping:
		return true
	}
	return false
}

// waitMaster returns the master's address as soon as there is one, or why there is none once
// no answer that is due could change that.
func (sr *sentinelResolver) waitMaster(ctx context.Context) (string, error) {
	for {
		sr.mu.Lock()
		master, ok := sr.current()
		if ok {
			sr.mu.Unlock()
			return master, nil
		}
		why := sr.reason()
		if !mayStillDecide(sr.answers, sr.node.cfg.Sentinels.majority()) {
			sr.mu.Unlock()
			return "", why
		}
		if sr.changed == nil {
			sr.changed = make(chan struct{})
		}
		changed := sr.changed
		sr.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", why
		}
	}
}

// dial connects to the master.
func (sr *sentinelResolver) dial(ctx context.Context) (*rawConn, error) {
	address, err := sr.waitMaster(ctx)
	if err != nil {
		return nil, err
	}
	s, err := sr.dialer.dial(context.WithValue(ctx, addressKey{}, address))
	if err != nil {
		sr.wakeAll() // perhaps it is no master any more
		return nil, err
	}
	s.address = address
	sr.track(s)
	return s, nil
}

// track has the session end when another master is named.
func (sr *sentinelResolver) track(s *rawConn) {
	sr.mu.Lock()
	sr.sessions.track(s, &sr.mu)
	other := sr.master != s.address
	sr.mu.Unlock()
	if other {
		s.closeFor(errSwitched)
	}
}

// explain reports how many Sentinels name the present master, and how often it changed.
func (sr *sentinelResolver) explain() (sentinels int, switches int64) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	now, fresh := sr.node.cfg.Clock.Now(), sr.node.cfg.Sentinels.maxAge()
	for _, n := range sr.answers {
		if n.master != "" && n.master == sr.master && now.Before(n.asked.Add(fresh)) {
			sentinels++
		}
	}
	return sentinels, sr.switches
}

// sentinelAnswers are what the Sentinels said, for an Examination.
func (sr *sentinelResolver) sentinelAnswers() []wire.SentinelAnswer {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	var all []wire.SentinelAnswer
	for _, n := range sr.answers {
		v := wire.SentinelAnswer{Address: n.sentinel, Master: n.master, Others: n.peers}
		if n.master != "" {
			v.Age = sr.node.cfg.Clock.Now().Sub(n.asked).Round(time.Millisecond)
		}
		if n.err != nil {
			v.Err = n.err.Error()
		}
		all = append(all, v)
	}
	return all
}
