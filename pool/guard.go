package pool

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// guardState is what one connection knows of the node's state under the restart guard of one node
// set.
//
// The pipeline's mutex guards most of it: whether a node votes is decided while its commands are
// queued and sent, and both must see the same state.
type guardState struct {
	conn     *pipeConn
	nodeSet  *command.NodeSet
	expected any // the marker that scripts compare with, boxed once
	history  *guardHistory

	// Guarded by pipeline.mu:
	asked    bool           // a VerifyMarker was sent on this connection, or is queued
	inFlight bool           // … and is not answered yet
	votes    bool           // the marker was the expected one
	why      error          // why the node does not vote, unless it is quarantined
	until    clock.Instant  // the end of the quarantine; 0 if there is none
	timer    clock.Timer    // sends the next VerifyMarker after the quarantine
	soon     int            // answers in a row that the quarantine ends at once
	pending  []pendingReply // replies that wait for the answer to VerifyMarker
}

// pendingReply is a command that found another marker than the expected one, and its reply, which
// still lacks the reason.
type pendingReply struct {
	command *command.Command
	reply   command.Reply
}

// guardOfLocked returns the connection's guard state for a node set, and makes it at the first
// use.
func (pc *pipeConn) guardOfLocked(s *command.NodeSet) *guardState {
	// The usual case. A connection has few node sets: one for each Locker with a guard.
	if g := pc.guards[s]; g != nil {
		return g
	}
	n := pc.pipeline.node
	runID, replID2 := pc.facts.RunID, pc.facts.ReplID2
	// Behind a proxy INFO may come from any server, so its run ID identifies nothing.
	if n.cfg.Proxied {
		runID, replID2 = guard.Proxied, guard.Proxied
	}
	g := &guardState{
		conn: pc, nodeSet: s, expected: s.Guard.Marker(runID, replID2, n.cfg.Name),
		history: n.histories.forNodeSet(s, n.cfg.Name, pc.facts.Facts, n.cfg.Clock.Now()),
	}
	if pc.guards == nil {
		pc.guards = make(map[*command.NodeSet]*guardState)
	}
	pc.guards[s] = g
	return g
}

// needsVerify reports whether a VerifyMarker must precede an operation on its connection: those
// that create a key, and those that count an existing key as a held lock (docs/dev/rules.md rule 16).
func needsVerify(op command.Op) bool { return op.Creates() || op == command.Inspect }

// withMarkerLocked returns the marker that is appended to the arguments of a guarded command. If
// the connection has not verified the marker yet, it also returns a VerifyMarker to be sent
// first. The order matters: the server executes commands in the order of the connection, so the
// marker is verified before the command that depends on it.
func (pc *pipeConn) withMarkerLocked(c *command.Command) (want any, first *command.Command) {
	if !c.Guarded {
		return nil, nil
	}
	g := pc.guardOfLocked(c.NodeSet)
	// asked is set with the command in hand, under the mutex: no second command of this batch asks
	// again.
	if !g.asked && needsVerify(c.Op) && !c.NodeSet.Ended() {
		g.asked, g.inFlight = true, true
		first = g.verifyCommand()
		first.MarkSent() // it goes out with this batch, and no other goroutine can cancel it
	}
	return g.expected, first
}

// verifyCommand makes a VerifyMarker.
func (g *guardState) verifyCommand() *command.Command {
	n := g.conn.pipeline.node
	over := n.histories.verified(g.history, n.cfg.Clock.Now())
	r := &command.Request{NodeSet: g.nodeSet}
	command.NewVerifyMarker(r, g.nodeSet.Guard, n.cfg.Name, over)
	return &command.Command{Request: r, To: g}
}

// ask queues another VerifyMarker, unless one is under way.
//
// votes is cleared together with asking: from here on, a command that finds another marker waits
// for the answer instead of asking again. The command is queued after the mutex is released,
// because requeue takes it.
func (g *guardState) ask() {
	pl := g.conn.pipeline
	pl.mu.Lock()
	idle := pl.conn == g.conn && !g.inFlight && !g.nodeSet.Ended()
	if idle {
		g.asked, g.inFlight, g.votes = true, true, false
	}
	pl.mu.Unlock()
	if idle {
		pl.requeue(g.verifyCommand())
	}
}

// Answer applies the node's answer to VerifyMarker. The reader calls it, or the goroutine that
// could not send the command.
//
// The pending replies are taken under the mutex and answered after it: Answer of a command calls
// into the coordinator, which may submit to this pipeline again.
func (g *guardState) Answer(_ *command.Command, rep command.Reply) {
	pc, n := g.conn, g.conn.pipeline.node
	outdated := rep.Outcome == command.Granted && g.outdated(rep.MarkerStatus)
	// The connection ends before the pending replies are answered, so the attempts that follow wait
	// for the next one.
	if outdated {
		pc.fail(errRoleChanged)
	}
	now := n.cfg.Clock.Now()
	pc.pipeline.mu.Lock()
	// Even if the answer is outdated: a command that comes now must be able to ask.
	g.inFlight = false
	if !outdated {
		g.applyLocked(rep, now)
	}
	why := g.whyNotVotingLocked(now)
	behind := g.pending
	g.pending = nil
	pc.pipeline.mu.Unlock()
	// Each gets the reason that was determined above, at one instant for all.
	for _, u := range behind {
		u.reply.Err = why
		u.command.Answer(u.reply)
	}
}

// outdated reports whether the server has changed since the dial, so that the connection must be
// dialled again. A server that was a replica at the dial is not outdated when it says so again:
// with WithUnsafeNodes it may vote for others, and it would be dialled without end. Only the
// reader calls it.
func (g *guardState) outdated(a *guard.MarkerStatus) bool {
	if a.Status == guard.NoMaster {
		return g.conn.facts.Role == "master"
	}
	return a.Status == guard.Marked && !g.conn.pipeline.node.cfg.Proxied && a.Marker != g.expected
}

// applyLocked stores the answer.
func (g *guardState) applyLocked(rep command.Reply, now clock.Instant) {
	n := g.conn.pipeline.node
	g.votes, g.why, g.until = false, nil, 0
	switch {
	case rep.Outcome != command.Granted:
		g.asked, g.why = false, rep.Err // the next command asks again; the votes of its lock have the reason
		return
	case rep.MarkerStatus.Status == guard.Marked:
		g.votes = true
		return
	case rep.MarkerStatus.Status == guard.Foreign:
		g.why = errForeignMarker(n.cfg.Name, rep.MarkerStatus.Marker, g.nodeSet.Guard)
		return
	case rep.MarkerStatus.Status == guard.NoMaster:
		g.why = errMarkerNoMaster(n.cfg.Name)
		return
	}
	g.until = now.Add(min(rep.MarkerStatus.Left, g.nodeSet.Guard.Quarantine(n.cfg.Name))) // the server may say anything
	// This client knows when the quarantine began, so it also measures it by its own clock: the
	// server's may be set forward.
	if rep.MarkerStatus.JustBegan {
		n.histories.begin(g.history, now.Add(g.nodeSet.Guard.Quarantine(n.cfg.Name)))
	}
	g.until = max(g.until, n.histories.end(g.history))
	// A timer on a connection that has ended would ask in vain. The next connection asks by itself.
	if g.conn.pipeline.conn == g.conn {
		g.recheckAfterLocked(g.askPauseLocked(g.until.Sub(now) + time.Millisecond))
	}
}

// A node that answers again and again that its quarantine ends at once is asked every
// minAskPause. A correct node answers so once or twice, because it rounds to milliseconds.
const (
	minAskPause  = 20 * time.Millisecond
	maxSoonAsked = 3
)

// askPauseLocked bounds the pause before the next VerifyMarker.
func (g *guardState) askPauseLocked(pause time.Duration) time.Duration {
	if pause >= minAskPause {
		g.soon = 0
		return pause
	}
	if g.soon++; g.soon > maxSoonAsked {
		return minAskPause
	}
	return pause
}

// recheckAfterLocked asks again after d.
func (g *guardState) recheckAfterLocked(d time.Duration) {
	if g.timer == nil {
		g.timer = g.conn.pipeline.node.cfg.Clock.AfterFunc(d, g.ask)
		return
	}
	g.timer.Reset(d)
}

// whyNotVotingLocked returns why the node does not vote.
func (g *guardState) whyNotVotingLocked(now clock.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.until != 0:
		return &QuarantineError{Node: g.conn.pipeline.node.cfg.Name, Remaining: max(0, g.until.Sub(now))}
	}
	return errUnmarked
}

// whyNotVotingLocked returns why the server does not vote for a node set, as far as this
// connection knows its marker. It sends nothing.
func (pc *pipeConn) whyNotVotingLocked(s *command.NodeSet) error {
	g := pc.guards[s]
	if g == nil || !g.asked || g.inFlight || g.votes {
		return nil
	}
	return g.whyNotVotingLocked(pc.pipeline.node.cfg.Clock.Now())
}

// isUnmarked reports whether a command found another marker than the expected one.
func isUnmarked(c *command.Command, r command.Reply) bool {
	return c.Guarded && r.Err != nil && (answeredBy(r.Err, "UNMARKED") || errors.Is(r.Err, errUnmarked))
}

// answerUnmarked answers such a command with the reason. If the reason is not known yet it asks the
// node and keeps the reply until the answer, so that the first attempt after a restart reports
// how long the node is quarantined.
//
// It looks at the state twice. ask takes the mutex itself, so the mutex is released in between,
// and the answer may have arrived by the second look.
func (pc *pipeConn) answerUnmarked(c *command.Command, r command.Reply) {
	pc.pipeline.mu.Lock()
	g := pc.guards[c.NodeSet]
	news := g != nil && g.votes // nil: its node set has ended and was dropped after the command was sent
	pc.pipeline.mu.Unlock()
	if news {
		g.ask()
	}
	now := pc.pipeline.node.cfg.Clock.Now()
	pc.pipeline.mu.Lock()
	waits := g != nil && g.inFlight
	switch {
	case waits:
		g.pending = append(g.pending, pendingReply{c, r})
	case g != nil:
		r.Err = g.whyNotVotingLocked(now)
	}
	pc.pipeline.mu.Unlock()
	if !waits {
		c.Answer(r)
	}
}

// recheckAll asks again for every node set that was asked for, including those for which the node
// could not answer.
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

// verifyAgainLocked asks on a new connection for every node set that earlier connections asked
// for, so that a quarantine begins as early as possible. It puts the commands in front of those
// that waited for the connection: they may be granted only after the answer.
func (pc *pipeConn) verifyAgainLocked() {
	queue := &pc.pipeline.queue
	// The queue is rebuilt under the mutex, so no command can be written in between.
	waiting := queue.popAll(nil)
	for _, s := range pc.pipeline.node.histories.nodeSets() {
		g := pc.guardOfLocked(s)
		g.asked, g.inFlight = true, true
		queue.push(g.verifyCommand())
	}
	for _, c := range waiting {
		queue.push(c)
	}
}

// fromOldConn reports whether a command asks for the guard state of another connection. Such a
// command remained in the queue when that connection ended, and what it says about this client's
// own timer may be out of date.
func (pc *pipeConn) fromOldConn(c *command.Command) bool {
	g, ok := c.To.(*guardState)
	return ok && g.conn != pc
}

// stopLocked stops the timer.
func (g *guardState) stopLocked() {
	if g.timer != nil {
		g.timer.Stop()
	}
}

// endGuardsLocked stops the timers.
func (pc *pipeConn) endGuardsLocked() {
	for _, g := range pc.guards {
		g.stopLocked()
	}
}
