package sentinel

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// resolver follows the node's Sentinels: it dials the master that its council chose, and ends connections to
// other servers.
//
// The watchers write the answers. The server reads the choice for every command, and takes no mutex for it.
type resolver struct {
	node.Master
	of       *Config
	parts    *node.Parts
	watchers []*watcher
	choice   atomic.Pointer[choice] // that of council

	mu       sync.Mutex // guards what follows; nothing else is called under it, so connections are ended after it is released
	council  *council
	sessions map[*transport.Conn]struct{}
	changed  signal.Broadcast // of council
}

// newResolver makes the resolver of a node and a watcher for each Sentinel. start starts
// them.
func newResolver(p *node.Parts, of *Config) *resolver {
	r := &resolver{of: of, parts: p, council: newCouncil(p.Name, of), sessions: make(map[*transport.Conn]struct{})}
	r.choice.Store(r.council.choice)
	cfg := p.ServerConfig(dialer{r})
	cfg.MayVote = r.mayVote
	r.Master = node.NewMaster(p, cfg)
	// An answer and its watcher have the same index. Each watcher replaces only its own answer.
	for i := range of.Addresses {
		r.watchers = append(r.watchers, newWatcher(r, p, of, i))
	}
	return r
}

// start starts the watchers and the connections to the master.
func (r *resolver) start() {
	for _, w := range r.watchers {
		w.begin()
	}
	r.Start()
}

// wakeAll has every Sentinel queried at once.
func (r *resolver) wakeAll() {
	for _, w := range r.watchers {
		w.wake.Set()
	}
}

// End stops the watchers, and closes the master.
func (r *resolver) End() {
	for _, w := range r.watchers {
		w.close()
	}
	r.Master.End()
}

// recordAnswer tells the council the answer of a Sentinel. It ends the connections to a former master after
// the mutex is released, because End wakes their goroutines.
func (r *resolver) recordAnswer(index int, a answer) {
	r.mu.Lock()
	from := r.council.answered(index, a, r.parts.Settings.Clock.Now())
	to := r.council.choice.master
	r.publishLocked()
	var cut []*transport.Conn
	if from != "" {
		// The list is made under the mutex together with the change of master. track covers connections
		// that are added later.
		for s := range r.sessions {
			if s.Address != to {
				cut = append(cut, s)
			}
		}
	}
	r.mu.Unlock()
	for _, s := range cut {
		s.End(errSwitched)
	}
	if from != "" {
		r.parts.Log(fmt.Sprintf("master is now %s, was %s", to, from), nil)
	}
}

// recordFailure tells the council that a Sentinel could not be queried. waitMaster then knows that this Sentinel will
// not answer. A failure names no master, so no connection has to be ended.
func (r *resolver) recordFailure(index int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.council.failed(index, err)
	r.publishLocked()
}

// publishLocked publishes what the council chose, and wakes the goroutines that wait for a master: each checks again
// whether there is one.
func (r *resolver) publishLocked() {
	r.choice.Store(r.council.choice)
	r.changed.Wake()
}

// mayVote returns why no command is sent on a connection to address, and why an answer from there is
// not a vote. It reads the clock after the choice, which may be too old by then.
func (r *resolver) mayVote(address string) error {
	chosen := r.choice.Load()
	return chosen.MayVote(address, r.parts.Settings.Clock.Now())
}

// waitMaster returns the master's address as soon as there is one. It returns the reason when no
// outstanding answer can lead to a master.
func (r *resolver) waitMaster(ctx context.Context) (string, error) {
	for {
		r.mu.Lock()
		chosen, mayStillDecide, changed := r.council.choice, r.council.mayStillDecide(), r.changed.Next()
		r.mu.Unlock()
		if chosen.counts(r.parts.Settings.Clock.Now()) {
			return chosen.master, nil
		}
		if !mayStillDecide {
			return "", chosen.why()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return "", chosen.why()
		}
	}
}

// dialer dials the master that the resolver names.
type dialer struct{ *resolver }

// Dial connects to the master.
func (r dialer) Dial(ctx context.Context) (*transport.Conn, error) {
	address, err := r.waitMaster(ctx)
	if err != nil {
		return nil, err
	}
	settings := r.parts.Settings.At(address)
	settings.Unreachable = func(err error) error { return r.unreachable(address, err) }
	s, err := settings.Dial(ctx)
	if err != nil {
		r.wakeAll() // it may no longer be the master
		return nil, err
	}
	// Set before track, which compares it.
	s.Address = address
	r.track(s)
	return s, nil
}

// unreachable adds which Sentinels named the address.
func (r *resolver) unreachable(address string, err error) error {
	r.mu.Lock()
	by := r.council.naming(address)
	r.mu.Unlock()
	return named.By(err, "its Sentinels ("+oneline.List(by, ", ")+")", address,
		"correct it in SENTINEL MONITOR, and set replica-announce-ip on the servers and sentinel announce-ip on the Sentinels")
}

// track ends the connection when another master is named. The master may have changed during the
// dial, so it is compared once more after the connection is registered; otherwise neither this
// call nor recordAnswer would end it.
func (r *resolver) track(s *transport.Conn) {
	s.Forget = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sessions, s)
	}
	r.mu.Lock()
	r.sessions[s] = struct{}{}
	// Compared under the lock that registers the connection: recordAnswer either sees the
	// connection, or has changed the master before.
	other := r.council.choice.master != s.Address
	r.mu.Unlock()
	if other {
		s.End(errSwitched)
	}
}

// State adds how many Sentinels name the present master, and how often it changed.
func (r *resolver) State(s *node.Stats) (notVoting error) {
	r.mu.Lock()
	s.Sentinels, s.Switches = r.council.agree(r.parts.Settings.Clock.Now()), r.council.switches
	r.mu.Unlock()
	return r.Master.State(s)
}

// Servers returns the master, and what the Sentinels answer.
func (r *resolver) Servers(ctx context.Context) (node.Servers, error) {
	s, err := r.Master.Servers(ctx)
	s.Sentinels = r.sentinelAnswers
	return s, err
}

// sentinelAnswers waits until each Sentinel has answered or failed, or until ctx ends.
func (r *resolver) sentinelAnswers(ctx context.Context) (all []node.SentinelAnswer) {
	for {
		r.mu.Lock()
		answers, changed := r.council.answers, r.changed.Next()
		r.mu.Unlock()
		if !slices.ContainsFunc(answers, func(a answer) bool { return !a.answered }) {
			return reported(answers)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return reported(answers)
		}
	}
}

// reported returns answers as the doctor gets them.
func reported(answers []answer) (all []node.SentinelAnswer) {
	for _, a := range answers {
		v := node.SentinelAnswer{Address: a.sentinel, Master: a.master, Others: a.peers}
		switch {
		case a.err != nil:
			v.Err = a.err.Error()
		case !a.answered:
			v.Err = "it has not answered yet"
		}
		all = append(all, v)
	}
	return all
}
