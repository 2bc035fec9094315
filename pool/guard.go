package pool

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// guardState is where a connection stands with the restart guard of one fleet.
type guardState struct {
	link     *pipeConn
	nodeSet  *wire.NodeSet
	expected any // the marker that scripts compare, boxed
	history  *guardHistory

	// Guarded by lane.mu:
	asked    bool          // the question where the node stands was asked on this connection
	underWay bool          // … and is not answered
	votes    bool          // the marker was the one expected
	why      error         // why the node does not vote, but for a quarantine
	until    clock.Instant // of the quarantine; 0 when there is none
	timer    clock.Timer   // asks again when it has passed
	logged   bool          // it was logged that the node does not vote
	soon     int           // answers in a row that the quarantine ends at once
	parked   []parkedReply // answered behind the question that is under way
}

// parkedReply is a command that found another marker than the one expected, and its answer
// but for the reason.
type parkedReply struct {
	command *wire.Command
	reply   wire.Reply
}

// guardOf finds the connection's guard for a fleet. Called under lane.mu.
func (pc *pipeConn) guardOf(f *wire.NodeSet) *guardState {
	if g := pc.guards[f]; g != nil {
		return g
	}
	n := pc.pipeline.node
	runID, replID2 := pc.facts.RunID, pc.facts.ReplID2
	if n.cfg.Proxied {
		runID, replID2 = wire.Proxied, wire.Proxied
	}
	g := &guardState{
		link: pc, nodeSet: f, expected: f.Guard.Marker(runID, replID2, n.cfg.Name),
		history: n.histories.forNodeSet(f, n.cfg.Name, pc.facts.Facts, n.cfg.Clock.Now()),
	}
	if pc.guards == nil {
		pc.guards = make(map[*wire.NodeSet]*guardState)
	}
	pc.guards[f] = g
	return g
}

// needsVerify reports whether an operation is preceded on its connection by the question
// where the node stands: those that create a key, and those that count what stands
// there as a lock that is held (docs/rules.md rule 16).
func needsVerify(op wire.Op) bool { return op.Creates() || op == wire.Inspect }

// withMarker returns what goes behind the arguments of a guarded command, and the
// question that goes in front of it where it was not asked yet. Called under lane.mu.
func (pc *pipeConn) withMarker(c *wire.Command) (want any, first *wire.Command) {
	if !c.Guarded {
		return nil, nil
	}
	g := pc.guardOf(c.NodeSet)
	if !g.asked && needsVerify(c.Op) && !c.NodeSet.Ended() {
		g.asked, g.underWay = true, true
		first = g.verifyCommand()
		first.MarkSent() // nobody else knows of it
	}
	return g.expected, first
}

// verifyCommand makes a VerifyMarker.
func (g *guardState) verifyCommand() *wire.Command {
	n := g.link.pipeline.node
	over := n.histories.verified(g.history, n.cfg.Clock.Now())
	r := &wire.Request{NodeSet: g.nodeSet}
	wire.NewVerifyMarker(r, g.nodeSet.Guard, n.cfg.Name, over)
	return &wire.Command{Request: r, To: g}
}

// ask has the question asked once more, unless it is under way.
func (g *guardState) ask() {
	l := g.link.pipeline
	l.mu.Lock()
	idle := l.conn == g.link && !g.underWay && !g.nodeSet.Ended()
	if idle {
		g.asked, g.underWay, g.votes = true, true, false
	}
	l.mu.Unlock()
	if idle {
		l.requeue(g.verifyCommand())
	}
}

// Answer takes what the node said of its marker. It is called by the reader, or when the
// question could not be asked.
func (g *guardState) Answer(_ *wire.Command, rep wire.Reply) {
	k, n := g.link, g.link.pipeline.node
	outdated := rep.Outcome == wire.Granted && g.outdated(rep.MarkerStatus)
	if outdated {
		k.fail(errRoleChanged)
	}
	now := n.cfg.Clock.Now()
	var news string
	k.pipeline.mu.Lock()
	g.underWay = false
	if !outdated {
		g.apply(rep, now)
		news = g.logLine()
	}
	why := g.whyNotVoting(now)
	behind := g.parked
	g.parked = nil
	k.pipeline.mu.Unlock()
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
func (g *guardState) outdated(a *wire.MarkerStatus) bool {
	if a.Guard == wire.NoMaster {
		return g.link.facts.Role == "master"
	}
	return a.Guard == wire.Marked && !g.link.pipeline.node.cfg.Proxied && a.Marker != g.expected
}

// logLine is what to log, and nothing when that was said before. Called under lane.mu.
func (g *guardState) logLine() string {
	switch {
	case g.votes && g.logged:
		g.logged = false
		return "votes again"
	case !g.votes && g.asked && !g.logged:
		g.logged = true
		return "does not vote"
	}
	return ""
}

// apply books the answer. Called under lane.mu.
func (g *guardState) apply(rep wire.Reply, now clock.Instant) {
	n := g.link.pipeline.node
	g.votes, g.why, g.until = false, nil, 0
	switch {
	case rep.Outcome != wire.Granted:
		g.asked, g.why = false, rep.Err // the next command asks again; the lock's own votes say why
		return
	case rep.MarkerStatus.Guard == wire.Marked:
		g.votes = true
		return
	case rep.MarkerStatus.Guard == wire.Foreign:
		g.why = errForeignMarker(n.cfg.Name, rep.MarkerStatus.Marker)
		return
	case rep.MarkerStatus.Guard == wire.NoMaster:
		g.why = errMarkerNoMaster(n.cfg.Name)
		return
	}
	g.until = now.Add(min(rep.MarkerStatus.Left, g.nodeSet.Guard.Quarantine(n.cfg.Name))) // the server may say anything
	if rep.MarkerStatus.JustBegan {
		n.histories.begin(g.history, now.Add(g.nodeSet.Guard.Quarantine(n.cfg.Name)))
	}
	g.until = max(g.until, n.histories.end(g.history))
	if g.link.pipeline.conn == g.link {
		g.recheckAfter(g.askPause(g.until.Sub(now) + time.Millisecond))
	}
}

// A node that says again and again that its quarantine ends at once is asked every minAskPause.
// Honest ones say so once or twice: they tell whole milliseconds.
const (
	minAskPause  = 20 * time.Millisecond
	maxSoonAsked = 3
)

// askPause bounds the pause before the next question. Called under lane.mu.
func (g *guardState) askPause(pause time.Duration) time.Duration {
	if pause >= minAskPause {
		g.soon = 0
		return pause
	}
	if g.soon++; g.soon > maxSoonAsked {
		return minAskPause
	}
	return pause
}

// recheckAfter asks again after d. Called under lane.mu.
func (g *guardState) recheckAfter(d time.Duration) {
	if g.timer == nil {
		g.timer = g.link.pipeline.node.cfg.Clock.AfterFunc(d, g.ask)
		return
	}
	g.timer.Reset(d)
}

// whyNotVoting is why the node does not vote. Called under lane.mu.
func (g *guardState) whyNotVoting(now clock.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.until != 0:
		return &wire.QuarantineError{Node: g.link.pipeline.node.cfg.Name, Remaining: max(0, g.until.Sub(now))}
	}
	return errUnmarked
}

// whyNotVoting is why the server does not vote for a fleet, as far as its marker is known
// on this connection. It asks nothing. Called under lane.mu.
func (pc *pipeConn) whyNotVoting(f *wire.NodeSet) error {
	g := pc.guards[f]
	if g == nil || !g.asked || g.underWay || g.votes {
		return nil
	}
	return g.whyNotVoting(pc.pipeline.node.cfg.Clock.Now())
}

// isUnmarked reports whether a command found another marker than the one expected.
func isUnmarked(c *wire.Command, r wire.Reply) bool {
	return c.Guarded && r.Err != nil && (answeredBy(r.Err, "UNMARKED") || errors.Is(r.Err, errUnmarked))
}

// parkOrAnswer answers such a command with the reason. When that is news the node is
// asked what has become of its marker, and the answer waits for it, so that the first
// attempt after an amnesia says for how long the node is quarantined.
func (pc *pipeConn) parkOrAnswer(c *wire.Command, r wire.Reply) {
	pc.pipeline.mu.Lock()
	g := pc.guards[c.NodeSet]
	news := g != nil && g.votes // nil: its fleet has ended, and was forgotten behind the command
	pc.pipeline.mu.Unlock()
	if news {
		g.ask()
	}
	now := pc.pipeline.node.cfg.Clock.Now()
	pc.pipeline.mu.Lock()
	waits := g != nil && g.underWay
	switch {
	case waits:
		g.parked = append(g.parked, parkedReply{c, r})
	case g != nil:
		r.Err = g.whyNotVoting(now)
	}
	pc.pipeline.mu.Unlock()
	if !waits {
		c.Answer(r)
	}
}

// recheckAll asks again where the node stands with every guard that it was asked about, also
// where it could not answer.
func (pc *pipeConn) recheckAll() {
	pc.pipeline.mu.Lock()
	var all []*guardState
	for _, g := range pc.guards {
		if g.asked || g.why != nil {
			all = append(all, g)
		}
	}
	pc.pipeline.mu.Unlock()
	for _, g := range all {
		g.ask()
	}
}

// verifyAgain asks on a new connection what was asked on those before it, so that a quarantine
// begins as early as can be; in front of commands that waited for the connection, which
// may be granted by what the answer settles. Called under lane.mu.
func (pc *pipeConn) verifyAgain() {
	queue := &pc.pipeline.queue
	waiting := queue.popAll(nil)
	for _, f := range pc.pipeline.node.histories.nodeSets() {
		g := pc.guardOf(f)
		g.asked, g.underWay = true, true
		queue.push(g.verifyCommand())
	}
	for _, c := range waiting {
		queue.push(c)
	}
}

// fromOldConn reports whether a command asks for another connection's guard: it was left in
// the queue when that one ended, and what it says of our own timer may be out of date.
func (pc *pipeConn) fromOldConn(c *wire.Command) bool {
	g, ok := c.To.(*guardState)
	return ok && g.link != pc
}

// stop stops the timer. Called under lane.mu.
func (g *guardState) stop() {
	if g.timer != nil {
		g.timer.Stop()
	}
}

// endGuards stops the timers. Called under lane.mu.
func (pc *pipeConn) endGuards() {
	for _, g := range pc.guards {
		g.stop()
	}
}
