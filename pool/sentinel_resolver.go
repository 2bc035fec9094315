package pool

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// sentinelResolver follows the node's Sentinels: it dials the master that its council chose, and ends connections to
// other servers.
//
// The watchers write the answers. The server reads the choice for every command, and takes no mutex for it.
type sentinelResolver struct {
	master
	watchers []*watcher
	choice   atomic.Pointer[choice] // that of council

	mu       sync.Mutex // guards what follows; nothing else is called under it, so connections are ended after it is released
	council  *council
	sessions map[*transport.Conn]struct{}
	changed  signal.Broadcast // of council
}

// newSentinelResolver makes the resolver of a node and a watcher for each Sentinel. start starts
// them.
func newSentinelResolver(n *Node) *sentinelResolver {
	sr := &sentinelResolver{council: newCouncil(n.cfg.Name, n.cfg.Sentinels), sessions: make(map[*transport.Conn]struct{})}
	sr.choice.Store(sr.council.choice)
	n.dialer = sr
	cfg := n.serverConfig()
	cfg.MayVote = sr.mayVote
	sr.master = newMaster(n, cfg)
	// An answer and its watcher have the same index. Each watcher replaces only its own answer.
	for i, a := range n.cfg.Sentinels.Addresses {
		sr.watchers = append(sr.watchers, newWatcher(sr, i, n.cfg.sentinel(a)))
	}
	return sr
}

// start starts the watchers and the connections to the master.
func (sr *sentinelResolver) start() {
	for _, w := range sr.watchers {
		w.begin()
	}
	sr.Start()
}

// wakeAll has every Sentinel queried at once.
func (sr *sentinelResolver) wakeAll() {
	for _, w := range sr.watchers {
		w.wake.Set()
	}
}

// close stops the watchers, and closes the master.
func (sr *sentinelResolver) close() {
	for _, w := range sr.watchers {
		w.close()
	}
	sr.master.close()
}

// recordAnswer tells the council the answer of a Sentinel. It ends the connections to a former master after
// the mutex is released, because End wakes their goroutines.
func (sr *sentinelResolver) recordAnswer(index int, a answer) {
	sr.mu.Lock()
	from := sr.council.answered(index, a, sr.node.cfg.Clock.Now())
	to := sr.council.choice.master
	sr.publishLocked()
	var cut []*transport.Conn
	if from != "" {
		// The list is made under the mutex together with the change of master. track covers connections
		// that are added later.
		for s := range sr.sessions {
			if s.Address != to {
				cut = append(cut, s)
			}
		}
	}
	sr.mu.Unlock()
	for _, s := range cut {
		s.End(errSwitched)
	}
	if from != "" {
		sr.node.log(fmt.Sprintf("master is now %s, was %s", to, from), nil)
	}
}

// recordFailure tells the council that a Sentinel could not be queried. waitMaster then knows that this Sentinel will
// not answer. A failure names no master, so no connection has to be ended.
func (sr *sentinelResolver) recordFailure(index int, err error) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	sr.council.failed(index, err)
	sr.publishLocked()
}

// publishLocked publishes what the council chose, and wakes the goroutines that wait for a master: each checks again
// whether there is one.
func (sr *sentinelResolver) publishLocked() {
	sr.choice.Store(sr.council.choice)
	sr.changed.Wake()
}

// mayVote returns why no command is sent on a connection to address, and why an answer from there is
// not a vote. It reads the clock after the choice, which may be too old by then.
func (sr *sentinelResolver) mayVote(address string) error {
	chosen := sr.choice.Load()
	return chosen.MayVote(address, sr.node.cfg.Clock.Now())
}

// waitMaster returns the master's address as soon as there is one. It returns the reason when no
// outstanding answer can lead to a master.
func (sr *sentinelResolver) waitMaster(ctx context.Context) (string, error) {
	for {
		sr.mu.Lock()
		chosen, mayStillDecide, changed := sr.council.choice, sr.council.mayStillDecide(), sr.changed.Next()
		sr.mu.Unlock()
		if chosen.counts(sr.node.cfg.Clock.Now()) {
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

// Dial connects to the master.
func (sr *sentinelResolver) Dial(ctx context.Context) (*transport.Conn, error) {
	address, err := sr.waitMaster(ctx)
	if err != nil {
		return nil, err
	}
	settings := sr.node.cfg.at(address).transport()
	settings.Unreachable = func(err error) error { return sr.unreachable(address, err) }
	s, err := settings.Dial(ctx)
	if err != nil {
		sr.wakeAll() // it may no longer be the master
		return nil, err
	}
	// Set before track, which compares it.
	s.Address = address
	sr.track(s)
	return s, nil
}

// unreachable adds which Sentinels named the address.
func (sr *sentinelResolver) unreachable(address string, err error) error {
	sr.mu.Lock()
	by := sr.council.naming(address)
	sr.mu.Unlock()
	return namedError(err, "its Sentinels ("+oneline.List(by, ", ")+")", address,
		"correct it in SENTINEL MONITOR, and set replica-announce-ip on the servers and sentinel announce-ip on the Sentinels")
}

// track ends the connection when another master is named. The master may have changed during the
// dial, so it is compared once more after the connection is registered; otherwise neither this
// call nor recordAnswer would end it.
func (sr *sentinelResolver) track(s *transport.Conn) {
	s.Forget = func() {
		sr.mu.Lock()
		defer sr.mu.Unlock()
		delete(sr.sessions, s)
	}
	sr.mu.Lock()
	sr.sessions[s] = struct{}{}
	// Compared under the lock that registers the connection: recordAnswer either sees the
	// connection, or has changed the master before.
	other := sr.council.choice.master != s.Address
	sr.mu.Unlock()
	if other {
		s.End(errSwitched)
	}
}

// state adds how many Sentinels name the present master, and how often it changed.
func (sr *sentinelResolver) state(s *Stats) (notVoting error) {
	sr.mu.Lock()
	s.Sentinels, s.Switches = sr.council.agree(sr.node.cfg.Clock.Now()), sr.council.switches
	sr.mu.Unlock()
	return sr.master.state(s)
}

// servers returns the master, and what the Sentinels answer.
func (sr *sentinelResolver) servers(ctx context.Context) (door.Servers, error) {
	s, err := sr.master.servers(ctx)
	s.Sentinels = sr.sentinelAnswers
	return s, err
}

func (sr *sentinelResolver) sentinelAnswers() (all []door.SentinelAnswer) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	for _, a := range sr.council.answers {
		v := door.SentinelAnswer{Address: a.sentinel, Master: a.master, Others: a.peers}
		if a.err != nil {
			v.Err = a.err.Error()
		}
		all = append(all, v)
	}
	return all
}
