package pool

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// guard is where a connection stands with the restart guard of one fleet.
type guard struct {
	link  *link
	fleet *wire.NodeSet
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
	soon     int           // answers in a row that the quarantine ends at once
	behind   []unmarked    // answered behind the question that is under way
}

// unmarked is a command that found another marker than the one expected, and its answer
// but for the reason.
type unmarked struct {
	command *wire.Command
	reply   wire.Reply
}

// guardOf finds the connection's guard for a fleet. Called under lane.mu.
func (k *link) guardOf(f *wire.NodeSet) *guard {
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
		past: n.pasts.of(f, n.cfg.Name, k.facts.Facts, n.cfg.Clock.Now()),
	}
	if k.guards == nil {
		k.guards = make(map[*wire.NodeSet]*guard)
	}
	k.guards[f] = g
	return g
}

// attests reports whether an operation is preceded on its connection by the question
// where the node stands: those that create a key, and those that count what stands
// there as a lock that is held (docs/rules.md rule 16).
func attests(op wire.Op) bool { return op.Creates() || op == wire.Inspect }

// takeGuarded returns what goes behind the arguments of a guarded command, and the
// question that goes in front of it where it was not asked yet. Called under lane.mu.
func (k *link) takeGuarded(c *wire.Command) (want any, first *wire.Command) {
	if !c.Guarded {
		return nil, nil
	}
	g := k.guardOf(c.NodeSet)
	if !g.asked && attests(c.Op) && !c.NodeSet.Ended() {
		g.asked, g.underWay = true, true
		first = g.question()
		first.MarkSent() // nobody else knows of it
	}
	return g.want, first
}

// question makes a VerifyMarker.
func (g *guard) question() *wire.Command {
	n := g.link.lane.node
	over := n.pasts.ask(g.past, n.cfg.Clock.Now())
	r := &wire.Request{NodeSet: g.fleet}
	wire.NewVerifyMarker(r, g.fleet.Guard, n.cfg.Name, over)
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
	outdated := rep.Outcome == wire.Granted && g.outdated(rep.MarkerStatus)
	if outdated {
		k.fail(errTurned)
	}
	now := n.cfg.Clock.Now()
	var news string
	k.lane.mu.Lock()
	g.underWay = false
	if !outdated {
		g.settle(rep, now)
		news = g.news()
	}
	why := g.reason(now)
	behind := g.behind
	g.behind = nil
	k.lane.mu.Unlock()
	if news != "" {
		n.log(news, why)
	}
	for _, u := range behind {
		u.reply.Err = why
		u.command.Answer(u.reply)
	}
}

// outdated reports whether what was read at the dial is not true any more. A node that
// was a replica then, and votes for others all the same (WithUnsafeNodes), would be
// dialled without end. Called by the reader.
func (g *guard) outdated(a *wire.MarkerStatus) bool {
	if a.Guard == wire.NoMaster {
		return g.link.facts.Role == "master"
	}
	return a.Guard == wire.Marked && !g.link.lane.node.cfg.Proxied && a.Marker != g.want
}

// news is what to log, and nothing when that was said before. Called under lane.mu.
func (g *guard) news() string {
	switch {
	case g.votes && g.told:
		g.told = false
		return "votes again"
	case !g.votes && g.asked && !g.told:
		g.told = true
		return "does not vote"
	}
	return ""
}

// settle books the answer. Called under lane.mu.
func (g *guard) settle(rep wire.Reply, now clock.Instant) {
	n := g.link.lane.node
	g.votes, g.why, g.until = false, nil, 0
	switch {
	case rep.Outcome != wire.Granted:
		g.asked, g.why = false, rep.Err // the next command asks again; the lock's own votes say why
		return
	case rep.MarkerStatus.Guard == wire.Marked:
		g.votes = true
		return
	case rep.MarkerStatus.Guard == wire.Foreign:
		g.why = foreign(n.cfg.Name, rep.MarkerStatus.Marker)
		return
	case rep.MarkerStatus.Guard == wire.NoMaster:
		g.why = noMaster(n.cfg.Name)
		return
	}
	g.until = now.Add(min(rep.MarkerStatus.Left, g.fleet.Guard.Quarantine(n.cfg.Name))) // the server may say anything
	if rep.MarkerStatus.JustBegan {
		n.pasts.begin(g.past, now.Add(g.fleet.Guard.Quarantine(n.cfg.Name)))
	}
	g.until = max(g.until, n.pasts.end(g.past))
	if g.link.lane.link == g.link {
		g.later(g.askPause(g.until.Sub(now) + time.Millisecond))
	}
}

// A node that says again and again that its quarantine ends at once is asked every minAskPause.
// Honest ones say so once or twice: they tell whole milliseconds.
const (
	minAskPause  = 20 * time.Millisecond
	maxSoonAsked = 3
)

// askPause bounds the pause before the next question. Called under lane.mu.
func (g *guard) askPause(pause time.Duration) time.Duration {
	if pause >= minAskPause {
		g.soon = 0
		return pause
	}
	if g.soon++; g.soon > maxSoonAsked {
		return minAskPause
	}
	return pause
}

// later asks again after d. Called under lane.mu.
func (g *guard) later(d time.Duration) {
	if g.timer == nil {
		g.timer = g.link.lane.node.cfg.Clock.AfterFunc(d, g.ask)
		return
	}
	g.timer.Reset(d)
}

// reason is why the node does not vote. Called under lane.mu.
func (g *guard) reason(now clock.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.until != 0:
		return &wire.QuarantineError{Node: g.link.lane.node.cfg.Name, Remaining: max(0, g.until.Sub(now))}
	}
	return errUnmarked
}

// whyNotVoting is why the server does not vote for a fleet, as far as its marker is known
// on this connection. It asks nothing. Called under lane.mu.
func (k *link) whyNotVoting(f *wire.NodeSet) error {
	g := k.guards[f]
	if g == nil || !g.asked || g.underWay || g.votes {
		return nil
	}
	return g.reason(k.lane.node.cfg.Clock.Now())
}

// isUnmarked reports whether a command found another marker than the one expected.
func isUnmarked(c *wire.Command, r wire.Reply) bool {
	return c.Guarded && r.Err != nil && (answeredBy(r.Err, "UNMARKED") || errors.Is(r.Err, errUnmarked))
}

// answerUnmarked answers such a command with the reason. When that is news the node is
// asked what has become of its marker, and the answer waits for it, so that the first
// attempt after an amnesia says for how long the node is quarantined.
func (k *link) answerUnmarked(c *wire.Command, r wire.Reply) {
	k.lane.mu.Lock()
	g := k.guards[c.NodeSet]
	news := g != nil && g.votes // nil: its fleet has ended, and was forgotten behind the command
	k.lane.mu.Unlock()
	if news {
		g.ask()
	}
	now := k.lane.node.cfg.Clock.Now()
	k.lane.mu.Lock()
	waits := g != nil && g.underWay
	switch {
	case waits:
		g.behind = append(g.behind, unmarked{c, r})
	case g != nil:
		r.Err = g.reason(now)
	}
	k.lane.mu.Unlock()
	if !waits {
		c.Answer(r)
	}
}

// remind asks again where the node stands with every guard that it was asked about, also
// where it could not answer.
func (k *link) remind() {
	k.lane.mu.Lock()
	var all []*guard
	for _, g := range k.guards {
		if g.asked || g.why != nil {
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
