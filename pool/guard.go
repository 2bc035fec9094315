package pool

import (
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// guardState is what one connection knows of the node's state under the restart guard.
//
// The pipeline's mutex guards it: whether a node votes is decided while its commands are queued and
// sent, and both must see the same state. expected is set once, before the first command that needs it is
// written. So the writer reads it without the mutex, and so does the reader at the answer.
type guardState struct {
	conn     *pipeConn
	expected any            // the marker that scripts compare with, boxed once; nil before the first guarded command
	asked    bool           // a VerifyMarker was sent on this connection, or is queued
	inFlight bool           // … and is not answered yet
	votes    bool           // the marker was the expected one
	why      error          // why the node does not vote, unless it is quarantined
	until    clock.Instant  // the end of the quarantine; 0 if there is none
	timer    timer.Alarm    // sends the next VerifyMarker after the quarantine
	pending  []pendingReply // replies that wait for the answer to VerifyMarker
}

// pendingReply is a command that found another marker than the expected one, and its reply, which
// still lacks the reason.
type pendingReply struct {
	command *command.Command
	reply   command.Reply
}

// settings returns those of the Locker's guard.
func (g *guardState) settings() *guard.Settings { return g.conn.pipeline.node.membership().Guard }

// prepareLocked makes the expected marker at the first use, when the node has its Locker.
func (g *guardState) prepareLocked() {
	if g.expected != nil {
		return
	}
	pc, n := g.conn, g.conn.pipeline.node
	runID, replID2 := pc.facts.RunID, pc.facts.ReplID2
	pc.pipeline.history.connected(runID+" "+replID2, n.cfg.Clock.Now().Add(g.settings().Quarantine(n.cfg.Name)))
	// Behind a proxy INFO may come from any server, so its run ID identifies nothing.
	if n.cfg.Proxied {
		runID, replID2 = guard.Proxied, guard.Proxied
	}
	g.expected = g.settings().Marker(runID, replID2, n.cfg.Name)
}

// needsVerify reports whether a VerifyMarker must precede an operation on its connection: those
// that create a key, and those that count an existing key as a held lock (docs/dev/rules.md rule 16).
func needsVerify(op command.Op) bool { return op.Creates() || op == command.Inspect }

// verifyFirstLocked returns a VerifyMarker to be sent before a guarded command, if the connection has not
// verified the marker yet. The order matters: the server executes commands in the order of the connection,
// so the marker is verified before the command that depends on it.
func (g *guardState) verifyFirstLocked(c *command.Command) *command.Command {
	if !c.Guarded {
		return nil
	}
	g.prepareLocked()
	if g.asked || !needsVerify(c.Op) {
		return nil
	}
	first := g.verifyLocked()
	first.MarkSent() // it goes out with this batch, and no other goroutine can cancel it
	return first
}

// verifyLocked makes a VerifyMarker.
//
// votes is cleared together with asking: from here on, a command that finds another marker waits
// for the answer instead of asking again.
func (g *guardState) verifyLocked() *command.Command {
	g.prepareLocked()
	g.asked, g.inFlight, g.votes = true, true, false
	n, r := g.conn.pipeline.node, &command.Request{}
	command.NewVerifyMarker(r, g.settings(), n.cfg.Name, g.conn.pipeline.history.verified(n.cfg.Clock.Now()))
	return &command.Command{Request: r, To: g}
}

// askLocked queues another VerifyMarker, unless one is under way or the connection has ended.
func (g *guardState) askLocked() {
	if pl := g.conn.pipeline; !g.inFlight && pl.conn == g.conn {
		pl.queue.push(g.verifyLocked())
		pl.wakeLocked()
	}
}

// ask is the timer's function.
func (g *guardState) ask() {
	g.conn.pipeline.mu.Lock()
	defer g.conn.pipeline.mu.Unlock()
	g.askLocked()
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
		pc.raw.End(errRoleChanged)
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
		g.why = session.ForeignMarker(n.cfg.Name, rep.MarkerStatus.Marker, g.settings())
		return
	case rep.MarkerStatus.Status == guard.NoMaster:
		g.why = session.NoMaster(n.cfg.Name)
		return
	}
	full, history := g.settings().Quarantine(n.cfg.Name), &g.conn.pipeline.history
	g.until = now.Add(min(rep.MarkerStatus.Left, full)) // the server may say anything
	// This client knows when the quarantine began, so it also measures it by its own clock: the
	// server's may be set forward.
	if rep.MarkerStatus.JustBegan {
		history.begin(now.Add(full))
	}
	g.until = max(g.until, history.notBefore)
	// A timer on a connection that has ended would ask in vain. The next connection asks by itself.
	if g.conn.pipeline.conn == g.conn {
		g.timer.Set(n.cfg.Clock, max(minAskPause, g.until.Sub(now)+time.Millisecond), g.ask)
	}
}

// minAskPause is the shortest pause before the next VerifyMarker: a node may answer again and again that its
// quarantine ends at once.
const minAskPause = 20 * time.Millisecond

// whyNotVotingLocked returns why the node does not vote.
func (g *guardState) whyNotVotingLocked(now clock.Instant) error {
	switch {
	case g.why != nil:
		return g.why
	case g.until != 0:
		return &QuarantineError{Node: g.conn.pipeline.node.cfg.Name, Remaining: max(0, g.until.Sub(now))}
	}
	return command.ErrUnmarked
}

// notVotingLocked returns why the server does not vote, as far as this connection knows its marker. It
// sends nothing.
func (g *guardState) notVotingLocked() error {
	if !g.asked || g.inFlight || g.votes {
		return nil
	}
	return g.whyNotVotingLocked(g.conn.pipeline.node.cfg.Clock.Now())
}

// isUnmarked reports whether a command found another marker than the expected one.
func isUnmarked(c *command.Command, r command.Reply) bool {
	return c.Guarded && r.Err != nil && (resp.Code(r.Err) == "UNMARKED" || errors.Is(r.Err, command.ErrUnmarked))
}

// answerUnmarked answers such a command with the reason. If the reason is not known yet it asks the
// node and keeps the reply until the answer, so that the first attempt after a restart reports
// how long the node is quarantined.
func (pc *pipeConn) answerUnmarked(c *command.Command, r command.Reply) {
	g, pl, now := &pc.guard, pc.pipeline, pc.pipeline.node.cfg.Clock.Now()
	pl.mu.Lock()
	if g.votes {
		g.askLocked()
	}
	waits := g.inFlight
	if waits {
		g.pending = append(g.pending, pendingReply{c, r})
	} else {
		r.Err = g.whyNotVotingLocked(now)
	}
	pl.mu.Unlock()
	if !waits {
		c.Answer(r)
	}
}

// verifyAgainLocked asks on a new connection if an earlier one asked, so that a quarantine begins as early
// as possible. It puts the command in front of those that waited for the connection: they may be granted
// only after the answer.
func (g *guardState) verifyAgainLocked() {
	pl := g.conn.pipeline
	if !pl.history.asked {
		return
	}
	// The queue is rebuilt under the mutex, so no command can be written in between.
	waiting := pl.queue.popAll(nil)
	pl.queue.push(g.verifyLocked())
	for _, c := range waiting {
		pl.queue.push(c)
	}
}

// fromOldConn reports whether a command asks for the guard state of another connection. Such a
// command remained in the queue when that connection ended, and what it says about this client's
// own timer may be out of date.
func (pc *pipeConn) fromOldConn(c *command.Command) bool {
	g, ok := c.To.(*guardState)
	return ok && g.conn != pc
}
