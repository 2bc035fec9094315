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

// follower is where a node stands with its Sentinels (docs/rules.md rule 29): it dials the
// master that they name, ends connections to any other, and says whether the one that a
// connection leads to may vote.
type follower struct {
	node     *Node
	own      *ownPool
	sentries []*sentry

	mu       sync.Mutex // guards what follows; nobody is called under it
	said     []naming
	master   string        // that a majority named last
	until    clock.Instant // … and until when that counts
	why      error         // why nobody votes; nil until somebody asks for it
	sessions sessions
	changed  chan struct{} // closed when something was said; made anew by who waits for it
	switches int64
}

func newFollower(n *Node) *follower {
	f := &follower{node: n, own: newOwnPool(n.cfg), sessions: make(sessions)}
	for i, a := range n.cfg.Sentinels.Addresses {
		f.said = append(f.said, naming{sentinel: a})
		f.sentries = append(f.sentries, newSentry(f, i, n.cfg.sentinel(a)))
	}
	return f
}

func (f *follower) begin() {
	for _, y := range f.sentries {
		y.begin()
	}
}

func (f *follower) poke() {
	for _, y := range f.sentries {
		y.poke()
	}
}

// close ends all that was begun. The connections to the master have ended before.
func (f *follower) close() error {
	var errs []error
	for _, y := range f.sentries {
		errs = append(errs, y.close())
	}
	return oneline.Join(append(errs, f.own.close())...)
}

// note books what a Sentinel answered.
func (f *follower) note(place int, n naming) {
	f.mu.Lock()
	f.said[place] = n
	cut, from := f.settle()
	to := f.master
	f.mu.Unlock()
	for _, s := range cut {
		s.cut(errSwitched)
	}
	if from != "" {
		f.node.log(fmt.Sprintf("its master is %s, and was %s", to, from), nil)
	}
}

// failed books that a Sentinel could not be asked. What it said before counts until it is
// too old.
func (f *follower) failed(place int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said[place].err, f.said[place].heard = err, true
	f.settle()
}

// settle finds the master of what was said, and lists the connections that lead to
// another one. From is the one before, if there was one. Called under mu.
func (f *follower) settle() (cut []*session, from string) {
	f.why = nil
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
	s := f.node.cfg.Sentinels
	master, until, ok := named(f.said, s.majority(), s.fresh())
	if !ok || !f.node.cfg.Clock.Now().Before(until) {
		f.until = 0
		return nil, ""
	}
	f.until = until
	if master == f.master {
		return nil, ""
	}
	if from, f.master = f.master, master; from != "" {
		f.switches++
	}
	for s := range f.sessions {
		if s.address != master {
			cut = append(cut, s)
		}
	}
	return cut, from
}

// present is the master that counts now. Called under mu.
func (f *follower) present() (master string, ok bool) {
	return f.master, f.until != 0 && f.node.cfg.Clock.Now().Before(f.until)
}

// refuses is why a command is not sent on a connection to that address: no majority has
// named it in time, or it is not of clients that would wait out what a failover may have
// lost. Without Sentinels it refuses nothing. Exceptions that are made for unfit nodes are
// none from this.
func (f *follower) refuses(c *wire.Command, address string) error {
	if f == nil {
		return nil
	}
	if !c.Informational && !c.NodeSet.KnowsMaxAge(f.node.cfg.Name, f.node.cfg.Sentinels.MaxAge) {
		return errUnsettled
	}
	return f.refusesVotes(address)
}

// refusesVotes is why an answer from there is no vote.
func (f *follower) refusesVotes(address string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch master, ok := f.present(); {
	case ok && master == address:
		return nil
	case ok:
		return errSwitched
	}
	return f.reason()
}

// reason is made once for all commands that it is told to. Called under mu.
func (f *follower) reason() error {
	if f.why == nil {
		s := f.node.cfg.Sentinels
		f.why = fmt.Errorf("pool: %w: %s", wire.ErrUnfit, unnamed(f.node.cfg.Name, s.Master, f.said, s.majority(), s.MaxAge))
	}
	return f.why
}

var (
	errSwitched  = errors.New("pool: the Sentinels name another master now")
	errUnsettled = fmt.Errorf("pool: %w: behind Sentinels it votes under the restart guard alone, whose quarantines last its Settle longer", wire.ErrUnfit)
)

// belated turns a grant that arrived when no majority named the master any more into an
// answer that does not count. It was sent while one did, and what is counted is counted
// from before that: nothing would be lost by taking it. But then it would have to stay
// true of all that is ever counted.
func (f *follower) belated(c *wire.Command, address string, r wire.Reply) wire.Reply {
	if f == nil || r.Outcome != wire.Granted || !votes(c) {
		return r
	}
	if err := f.refusesVotes(address); err != nil {
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

// await returns the master's address as soon as there is one, or why there is none once
// no answer that is due could change that.
func (f *follower) await(ctx context.Context) (string, error) {
	for {
		f.mu.Lock()
		master, ok := f.present()
		if ok {
			f.mu.Unlock()
			return master, nil
		}
		why := f.reason()
		if !undecided(f.said, f.node.cfg.Sentinels.majority()) {
			f.mu.Unlock()
			return "", why
		}
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", why
		}
	}
}

// dial connects to the master.
func (f *follower) dial(ctx context.Context) (*session, error) {
	address, err := f.await(ctx)
	if err != nil {
		return nil, err
	}
	s, err := f.own.dial(context.WithValue(ctx, addressKey{}, address))
	if err != nil {
		f.poke() // perhaps it is no master any more
		return nil, err
	}
	s.address = address
	f.keep(s)
	return s, nil
}

// keep has the session end when another master is named.
func (f *follower) keep(s *session) {
	f.mu.Lock()
	f.sessions.keep(s, &f.mu)
	other := f.master != s.address
	f.mu.Unlock()
	if other {
		s.cut(errSwitched)
	}
}

// naming reports how many Sentinels name the present master, and how often it changed.
func (f *follower) naming() (sentinels int, switches int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, fresh := f.node.cfg.Clock.Now(), f.node.cfg.Sentinels.fresh()
	for _, n := range f.said {
		if n.master != "" && n.master == f.master && now.Before(n.asked.Add(fresh)) {
			sentinels++
		}
	}
	return sentinels, f.switches
}

// views are what the Sentinels said, for an Examination.
func (f *follower) views() []wire.SentinelAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []wire.SentinelAnswer
	for _, n := range f.said {
		v := wire.SentinelAnswer{Address: n.sentinel, Master: n.master, Others: n.others}
		if n.master != "" {
			v.Age = f.node.cfg.Clock.Now().Sub(n.asked).Round(time.Millisecond)
		}
		if n.err != nil {
			v.Err = n.err.Error()
		}
		all = append(all, v)
	}
	return all
}
