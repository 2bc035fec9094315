package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// sentinelResolver follows the node's Sentinels (docs/dev/rules.md rule 29). It dials the master
// that they name, ends connections to other servers, and decides whether the server of a
// connection may vote.
//
// The watchers write the answers, the pipelines read the result for every command. The mutex is
// taken under mutexes of pipelines (rejectReason), so the resolver never calls a pipeline while it holds
// the mutex: connections are ended after it is released.
type sentinelResolver struct {
	single
	watchers []*watcher

	mu       sync.Mutex // guards what follows; nothing is called under it
	answers  []answer
	master   string        // the last one that a majority named
	until    clock.Instant // … and the instant until which that counts
	why      error         // why the node does not vote; built at the first use
	sessions map[*transport.Conn]struct{}
	changed  signal.Broadcast // of an answer
	switches int64
}

// newSentinelResolver makes the resolver of a node and a watcher for each Sentinel. start starts
// them.
func newSentinelResolver(n *Node) *sentinelResolver {
	f := &sentinelResolver{single: single{n}, sessions: make(map[*transport.Conn]struct{})}
	// An answer and its watcher have the same index. Each watcher replaces only its own answer.
	for i, a := range n.cfg.Sentinels.Addresses {
		f.answers = append(f.answers, answer{sentinel: a})
		f.watchers = append(f.watchers, newWatcher(f, i, n.cfg.sentinel(a)))
	}
	return f
}

// start starts the watchers and the connections to the master.
func (sr *sentinelResolver) start(ctx context.Context) {
	for _, w := range sr.watchers {
		w.begin()
	}
	sr.single.start(ctx)
}

// wakeAll has every Sentinel queried at once.
func (sr *sentinelResolver) wakeAll() {
	for _, w := range sr.watchers {
		w.wake.Set()
	}
}

// stop stops the watchers.
func (sr *sentinelResolver) stop() {
	for _, w := range sr.watchers {
		w.close()
	}
}

// recordAnswer stores the answer of a Sentinel. It ends the connections to a former master after
// the mutex is released, because fail wakes their goroutines.
func (sr *sentinelResolver) recordAnswer(index int, n answer) {
	sr.mu.Lock()
	// The newest answer of a Sentinel replaces the one before, so each Sentinel counts once.
	sr.answers[index] = n
	cut, from := sr.recomputeLocked()
	to := sr.master
	sr.mu.Unlock()
	for _, s := range cut {
		s.End(errSwitched)
	}
	if from != "" {
		sr.node.log(fmt.Sprintf("master is now %s, was %s", to, from), nil)
	}
}

// recordFailure stores that a Sentinel could not be queried. Its last answer counts until it is
// too old.
func (sr *sentinelResolver) recordFailure(index int, err error) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	// master and asked stay: that the Sentinel is unreachable does not contradict what it said.
	// recomputeLocked wakes waitMaster, which then knows that this Sentinel will not answer.
	sr.answers[index].err, sr.answers[index].answered = err, true
	// The result is not used: a failure names no master, so no connection has to be ended.
	sr.recomputeLocked()
}

// recomputeLocked determines the master from the answers, and returns the connections to other
// servers and the previous master. Every answer also wakes the goroutines that wait for a master:
// each checks again whether there is one.
func (sr *sentinelResolver) recomputeLocked() (cut []*transport.Conn, from string) {
	// The text was about the answers before this one.
	sr.why = nil
	sr.changed.Wake()
	s := sr.node.cfg.Sentinels
	master, until, ok := majorityMaster(sr.answers, s.majority(), s.maxAge())
	// The old master is remembered, but it does not count. Its connections stay: if the same master
	// is named again they can be used.
	if !ok || !sr.node.cfg.Clock.Now().Before(until) {
		sr.until = 0
		return nil, ""
	}
	sr.until = until
	if master == sr.master {
		return nil, ""
	}
	// The first master that is named is no switch.
	if from, sr.master = sr.master, master; from != "" {
		sr.switches++
	}
	// The list is made under the mutex together with the change of master. track covers connections
	// that are added later.
	for s := range sr.sessions {
		if s.Address != master {
			cut = append(cut, s)
		}
	}
	return cut, from
}

// currentLocked returns the master that counts now. It reads the clock at each use, because no
// event marks the instant at which the answers become too old.
func (sr *sentinelResolver) currentLocked() (master string, ok bool) {
	return sr.master, sr.until != 0 && sr.node.cfg.Clock.Now().Before(sr.until)
}

// rejectReason returns why no command is sent on a connection to address, and why an answer from there is
// not a vote: no majority has named the address in time. WithUnsafeNodes makes no exception from this.
func (sr *sentinelResolver) rejectReason(address string) error {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	switch master, ok := sr.currentLocked(); {
	case ok && master == address:
		return nil
	case ok:
		return errSwitched
	}
	// The text is made under the mutex, because it lists the answers.
	return sr.reasonLocked()
}

// reasonLocked returns why there is no master. The text is built once and used for all commands
// until the next answer.
func (sr *sentinelResolver) reasonLocked() error {
	if sr.why == nil {
		s := sr.node.cfg.Sentinels
		sr.why = fmt.Errorf("pool: %w: %s", command.ErrUnfit, explainNoMaster(sr.node.cfg.Name, s.Master, sr.answers, s.majority(), s.MaxAge))
	}
	return sr.why
}

var errSwitched = errors.New("pool: Sentinels name another master")

// checkReply turns a grant into Unknown if no majority named its server any more when it
// arrived. A majority named the server when the command was sent, and the validity counts from
// before that, so accepting the grant would be safe today. But every future use of a grant would
// have to keep it safe.
func (sr *sentinelResolver) checkReply(c *command.Command, address string, r command.Reply) command.Reply {
	if r.Outcome != command.Granted || !votes(c) {
		return r
	}
	if err := sr.rejectReason(address); err != nil {
		return command.Reply{Outcome: command.Unknown, Err: err}
	}
	return r
}

// votes reports whether a command's answer counts towards a quorum of a lock.
func votes(c *command.Command) bool {
	switch c.Op {
	case command.Acquire, command.Confirm, command.Repair, command.Extend, command.Inspect, command.Ping:
		return true
	}
	return false
}

// waitMaster returns the master's address as soon as there is one. It returns the reason when no
// outstanding answer can lead to a master.
func (sr *sentinelResolver) waitMaster(ctx context.Context) (string, error) {
	for {
		sr.mu.Lock()
		master, ok := sr.currentLocked()
		if ok {
			sr.mu.Unlock()
			return master, nil
		}
		// Taken before the wait: if ctx ends, this is the state that the caller waited in.
		why := sr.reasonLocked()
		if !mayStillDecide(sr.answers, sr.node.cfg.Sentinels.majority()) {
			sr.mu.Unlock()
			return "", why
		}
		changed := sr.changed.Next()
		sr.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", why
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
	defer sr.mu.Unlock()
	var by []string
	for _, n := range sr.answers {
		if n.master == address {
			by = append(by, n.sentinel)
		}
	}
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
	other := sr.master != s.Address
	sr.mu.Unlock()
	if other {
		s.End(errSwitched)
	}
}

// addStats adds how many Sentinels name the present master, and how often it changed.
func (sr *sentinelResolver) addStats(s *Stats) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	now, fresh := sr.node.cfg.Clock.Now(), sr.node.cfg.Sentinels.maxAge()
	for _, n := range sr.answers {
		// The same rule as that of the majority: an answer that is too old is no vote for the
		// master.
		if n.master != "" && n.master == sr.master && now.Before(n.asked.Add(fresh)) {
			s.Sentinels++
		}
	}
	s.Switches = sr.switches
}

// servers returns the master, and what the Sentinels answer.
func (sr *sentinelResolver) servers(ctx context.Context) (door.Servers, error) {
	s, err := sr.single.servers(ctx)
	s.Sentinels = sr.sentinelAnswers
	return s, err
}

func (sr *sentinelResolver) sentinelAnswers() (all []door.SentinelAnswer) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	for _, n := range sr.answers {
		v := door.SentinelAnswer{Address: n.sentinel, Master: n.master, Others: n.peers}
		if n.err != nil {
			v.Err = n.err.Error()
		}
		all = append(all, v)
	}
	return all
}
