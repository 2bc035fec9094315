package pool

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// errUnmarked is why a command did not count under the restart guard before it is known
// what is the matter with the node's marker: an acquisition asks, a look does not.
var errUnmarked = errors.New("pool: the node has not the marker that lets it vote: it is new, or may have forgotten locks; " +
	"an acquisition asks it for how long")

// past is what a node remembers of the guard of one fleet from connection to
// connection.
type past struct {
	asked  bool          // where the node stands, on any connection
	server string        // run and history of the latest connection
	own    clock.Instant // a quarantine that began in our sight ends no sooner (HAZARDS.md H100)
}

// pasts are a node's, by fleet.
type pasts struct {
	mu  sync.Mutex // guards what follows; nobody is called under it
	all map[*wire.Fleet]*past
}

// of finds the past of a fleet. When the server is another one than at the latest
// connection its run began in our sight.
func (m *pasts) of(f *wire.Fleet, facts wire.Facts, now clock.Instant) *past {
	m.mu.Lock()
	defer m.mu.Unlock()
	own, server := m.all[f], facts.RunID+" "+facts.ReplID2
	switch {
	case own == nil:
		own = &past{server: server}
		if m.all == nil {
			m.all = make(map[*wire.Fleet]*past)
		}
		m.all[f] = own
	case own.server != server:
		own.server, own.own = server, now.Add(f.Guard.Quarantine())
	}
	return own
}

// fleets are those that have asked where the node stands. It forgets those that have
// ended.
func (m *pasts) fleets() []*wire.Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*wire.Fleet
	for f, own := range m.all {
		switch {
		case f.Ended():
			delete(m.all, f)
		case own.asked:
			all = append(all, f)
		}
	}
	return all
}

// begin starts our own timer of a quarantine that began with our question.
func (m *pasts) begin(own *past, end clock.Instant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own.own = max(own.own, end)
}

func (m *pasts) end(own *past) clock.Instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return own.own
}

// ask notes that the node was asked where it stands, and reports whether a quarantine
// that has passed by its own clock may end.
func (m *pasts) ask(own *past, now clock.Instant) (over bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own.asked = true
	return !now.Before(own.own)
}

// guard is where a connection stands with the restart guard of one fleet.
type guard struct {
	link  *link
	fleet *wire.Fleet
	want  any // the marker that scripts compare, boxed
	past  *past

	// Guarded by lane.mu:
	asked    bool          // the question where the node stands was asked on this connection
	underWay bool          // … and is not answered
	votes    bool          // the marker was the one expected
	why      error         // why the node does not vote, but for a quarantine
	until    clock.Instant // of the quarantine; 0 when there is none
	timer    clock.Timer   // asks again when it has passed
	told     bool          // it was logged that the node does not vote
}

// guardOf finds the connection's guard for a fleet. Called under lane.mu.
func (k *link) guardOf(f *wire.Fleet) *guard {
	if g := k.guards[f]; g != nil {
		return g
	}
	n := k.lane.node
	runID, replID2 := k.facts.RunID, k.facts.ReplID2
	if n.cfg.Proxied {
		runID, replID2 = wire.Proxied, wire.Proxied
	}
	g := &guard{
		link: k, fleet: f, want: f.Guard.Marker(runID, replID2, n.cfg.Name),
		past: n.pasts.of(f, k.facts.Facts, n.cfg.Clock.Now()),
	}
	if k.guards == nil {
		k.guards = make(map[*wire.Fleet]*guard)
	}
	k.guards[f] = g
	return g
}

// attests reports whether an operation is preceded on its connection by the question
// where the node stands: those that create a key, and those that count what stands
// there as a lock that is held (DESIGN.md rule 16).
func attests(op wire.Op) bool { return op.Creates() || op == wire.Inspect }

// takeGuarded returns what goes behind the arguments of a guarded command, and the
// question that goes in front of it where it was not asked yet. Called under lane.mu.
func (k *link) takeGuarded(c *wire.Command) (want any, first *wire.Command) {
	if !c.Guarded {
		return nil, nil
	}
	g := k.guardOf(c.Fleet)
	if !g.asked && attests(c.Op) && !c.Fleet.Ended() {
		g.asked, g.underWay = true, true
		first = g.question()
		first.Send() // nobody else knows of it
	}
	return g.want, first
}

// question makes an Attest.
func (g *guard) question() *wire.Command {
	n := g.link.lane.node
	over := n.pasts.ask(g.past, n.cfg.Clock.Now())
	r := &wire.Request{Fleet: g.fleet}
	wire.NewAttest(r, g.fleet.Guard, n.cfg.Name, over)
	return &wire.Command{Request: r, To: g}
}

// ask has the question asked once more, unless it is under way.
func (g *guard) ask() {
	l := g.link.lane
	l.mu.Lock()
	idle := l.link == g.link && !g.underWay && !g.fleet.Ended()
	if idle {
		g.asked, g.underWay, g.votes = true, true, false
	}
	l.mu.Unlock()
	if idle {
		l.again(g.question())
	}
}

// Answer takes what the node said of its marker. It is called by the reader, or when the
// question could not be asked.
func (g *guard) Answer(_ *wire.Command, rep wire.Reply) {
	k, n := g.link, g.link.lane.node
	if rep.Outcome == wire.Granted && g.outdated(rep.Attestation) {
		k.fail(errTurned)
		return
	}
	now := n.cfg.Clock.Now()
	k.lane.mu.Lock()
	g.settle(rep, now)
	news, why := g.news(now)
	k.lane.mu.Unlock()
	if news != "" {
		n.log(news, why)
	}
}

// outdated reports whether what was read at the dial is not true any more. A node that
// was a replica then, and votes for others all the same (WithUnsafeNodes), would be
// dialled without end. Called by the reader.
func (g *guard) outdated(a *wire.Attestation) bool {
	if a.Standing == wire.NoMaster {
		return g.link.facts.Role == "master"
	}
	return a.Standing == wire.Marked && !g.link.lane.node.cfg.Proxied && a.Marker != g.want
}

// news is what to log, and nothing when that was said before. Called under lane.mu.
func (g *guard) news(now clock.Instant) (msg string, why error) {
	switch {
	case g.votes && g.told:
		g.told = false
		return "votes again", nil
	case !g.votes && g.asked && !g.told:
		g.told = true
		return "does not vote", g.reason(now)
	}
	return "", nil
}

// settle books the answer. Called under lane.mu.
func (g *guard) settle(rep wire.Reply, now clock.Instant) {
	n := g.link.lane.node
	g.underWay, g.votes, g.why, g.until = false, false, nil, 0
	switch {
	case rep.Outcome != wire.Granted:
		g.asked, g.why = false, rep.Err // the next command asks again; the lock's own votes say why
		return
	case rep.Attestation.Standing == wire.Marked:
		g.votes = true
		return
	case rep.Attestation.Standing == wire.Foreign:
		g.why = foreign(n.cfg.Name, rep.Attestation.Marker)
		return
	case rep.Attestation.Standing == wire.NoMaster:
		g.why = noMaster(n.cfg.Name)
		return
	}
	g.until = now.Add(rep.Attestation.Left)
	if rep.Attestation.Began {
		n.pasts.begin(g.past, now.Add(g.fleet.Guard.Quarantine()))
	}
	g.until = max(g.until, n.pasts.end(g.past))
	if g.link.lane.link == g.link {
		g.later(g.until.Sub(now) + time.Millisecond)
	}
}

// later asks again after d. Called under lane.mu.
func (g *guard) later(d time.Duration) {
	if g.timer == nil {
		g.timer = g.link.lane.node.cfg.Clock.AfterFunc(d, g.ask)
		return
	}
	g.timer.Reset(d)
}

// errNoGuard is a defect of the caller's.
var errNoGuard = errors.New("pool: a guarded command of a fleet without a guard")

// mismatch matches ErrGuardMismatch, besides what is in it.
type mismatch struct{ error }

func (m mismatch) Is(target error) bool { return target == wire.ErrGuardMismatch }

func (m mismatch) Unwrap() error { return m.error }

// guarded: DESIGN.md rule 17, HAZARDS.md H112.
func guarded(node, marker string) error {
	return mismatch{fmt.Errorf("pool: %w: %s is guarded (%s is %q), and this client is not: its locks would be unknown to the guard; "+
		"use WithRestartGuard, or name the node in WithUnsafeNodes while the guard is being switched on", wire.ErrUnfit, node, wire.MarkerKey, marker)}
}

// foreign: HAZARDS.md H40.
func foreign(node, marker string) error {
	return mismatch{fmt.Errorf("pool: %w: %s is guarded by clients of another list of nodes, another maxTTL or another name for it (%s is %q): two "+
		"fleets do not exclude each other; give all clients the same, or, to change them, stop the old ones, wait their maxTTL, and delete that key",
		wire.ErrUnfit, node, wire.MarkerKey, marker)}
}

func noMaster(node string) error {
	return fmt.Errorf("pool: %w: %s is a replica, which no restart guard lets vote: give the address of a master", wire.ErrUnfit, node)
}

// reason is why the node does not vote. Called under lane.mu.
func (g *guard) reason(now clock.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.until != 0:
		return &wire.QuarantineError{Node: g.link.lane.node.cfg.Name, Left: max(0, g.until.Sub(now))}
	}
	return errUnmarked
}

// unmarked puts the reason into the answer to a command that found another marker than
// the one expected. When that is news the node is asked what has become of it.
func (k *link) unmarked(c *wire.Command, r wire.Reply) wire.Reply {
	if !c.Guarded || r.Err == nil || !answeredBy(r.Err, "UNMARKED") && !errors.Is(r.Err, errUnmarked) {
		return r
	}
	now := k.lane.node.cfg.Clock.Now()
	k.lane.mu.Lock()
	g, ask := k.guards[c.Fleet], false
	if g != nil { // else its fleet has ended, and was forgotten behind the command
		r.Err, ask = g.reason(now), g.votes
	}
	k.lane.mu.Unlock()
	if ask {
		g.ask()
	}
	return r
}

// remind asks again where the node stands with every guard that it was asked about, also
// where it could not answer. It forgets those of fleets that have ended.
func (k *link) remind() {
	k.lane.mu.Lock()
	var all []*guard
	for f, g := range k.guards {
		switch {
		case f.Ended():
			g.stop()
			delete(k.guards, f)
		case g.asked || g.why != nil:
			all = append(all, g)
		}
	}
	k.lane.mu.Unlock()
	for _, g := range all {
		g.ask()
	}
}

// renew asks on a new connection what was asked on those before it, so that a quarantine
// begins as early as can be; in front of commands that waited for the connection, which
// may be granted by what the answer settles. Called under lane.mu.
func (k *link) renew() {
	queue := &k.lane.queue
	waiting := queue.popAll(nil)
	for _, f := range k.lane.node.pasts.fleets() {
		g := k.guardOf(f)
		g.asked, g.underWay = true, true
		queue.push(g.question())
	}
	for _, c := range waiting {
		queue.push(c)
	}
}

// isStray reports whether a command asks for another connection's guard: it was left in
// the queue when that one ended, and what it says of our own timer may be out of date.
func (k *link) isStray(c *wire.Command) bool {
	g, ok := c.To.(*guard)
	return ok && g.link != k
}

// stop stops the timer. Called under lane.mu.
func (g *guard) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}

// endGuards stops the timers. Called under lane.mu.
func (k *link) endGuards() {
	for _, g := range k.guards {
		g.stop()
	}
}
