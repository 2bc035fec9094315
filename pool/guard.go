package pool

import (
	"errors"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// guardState is what a connection does for the restart guard. The pipeline has the session.Marker, which decides.
// The pipeline's mutex guards both.
type guardState struct {
	timer timer.Alarm // for the end of a quarantine
	held  []heldReply // replies that wait for the answer to a VerifyMarker
}

// heldReply is a command that found another marker than the expected one, and its reply, which
// still lacks the reason.
type heldReply struct {
	command *command.Command
	reply   command.Reply
}

// needsVerifyLocked reports whether a VerifyMarker has to precede a command. The order matters: the server executes
// commands in the order of the connection, so the marker is verified before the command that depends on it.
func (pc *pipeConn) needsVerifyLocked(c *command.Command) bool {
	if c.Guarded {
		pc.identifyLocked()
	}
	return c.Guarded && pc.pipeline.marker.Precedes(c.Op)
}

// verifyLocked makes a VerifyMarker that goes out with this batch: no other goroutine can cancel it.
func (pc *pipeConn) verifyLocked() *command.Command {
	pc.identifyLocked()
	n, r := pc.pipeline.node, &command.Request{}
	command.NewVerifyMarker(r, n.membership().Guard, n.cfg.Name, pc.pipeline.marker.Ask(n.cfg.Clock.Now()))
	c := &command.Command{Request: r, To: markerCheck{pc}}
	c.MarkSent()
	return c
}

// identifyLocked has the marker made with which scripts compare, at the first guarded command: by then the node has its Locker.
func (pc *pipeConn) identifyLocked() {
	if pc.expected != nil {
		return
	}
	m, n := &pc.pipeline.marker, pc.pipeline.node
	m.Identify(n.membership().Guard, n.cfg.Name, n.cfg.Proxied, pc.state.Facts(), n.cfg.Clock.Now())
	pc.expected = m.Expected()
}

// markerCheck receives the answer to a VerifyMarker.
type markerCheck struct{ *pipeConn }

// Answer applies the answer, and answers the replies that waited for it. The reader calls it, or the
// goroutine that ended the connection.
func (mc markerCheck) Answer(_ *command.Command, rep command.Reply) {
	pl := mc.pipeline
	now := pl.node.cfg.Clock.Now()
	pl.mu.Lock()
	outdated := false
	if rep.Outcome == command.Granted {
		if outdated = pl.marker.Answered(rep.MarkerStatus, now); pl.marker.Due() != 0 {
			mc.guard.timer.Set(pl.node.cfg.Clock, pl.marker.Due().Sub(now), mc.quarantineEnds)
		}
	} else {
		pl.marker.Failed(rep.Err)
	}
	why := pl.whyNotVotingLocked(now)
	held := mc.guard.held
	mc.guard.held = nil
	pl.mu.Unlock()
	// Before the replies that waited are answered, so the attempts that follow wait for the next connection.
	if outdated {
		mc.raw.End(errRoleChanged)
	}
	// After the mutex: Answer of a command calls into the coordinator, which may submit to this pipeline again. Each gets
	// the reason that was determined above, at one instant for all.
	for _, h := range held {
		h.reply.Err = why
		h.command.Answer(h.reply)
	}
}

// quarantineEnds is the timer's function. A timer that fires late may belong to a connection that has ended: the next one
// asks by itself.
func (pc *pipeConn) quarantineEnds() {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	if pc.pipeline.conn == pc {
		pc.pipeline.marker.Tick()
		pc.pipeline.wakeLocked()
	}
}

// whyNotVotingLocked returns why the server does not vote under the restart guard.
func (pl *pipeline) whyNotVotingLocked(now clock.Instant) error {
	if left, ok := pl.marker.Quarantine(now); ok {
		return &QuarantineError{Node: pl.node.cfg.Name, Remaining: left}
	}
	return pl.marker.Why()
}

// isUnmarked reports whether a command found another marker than the expected one.
func isUnmarked(c *command.Command, r command.Reply) bool {
	return c.Guarded && r.Err != nil && (resp.Code(r.Err) == "UNMARKED" || errors.Is(r.Err, command.ErrUnmarked))
}

// answerUnmarked answers such a command with the reason. If the reason is not known yet it asks the
// node and keeps the reply until the answer, so that the first attempt after a restart reports
// how long the node is quarantined.
func (pc *pipeConn) answerUnmarked(c *command.Command, r command.Reply) {
	pl, now := pc.pipeline, pc.pipeline.node.cfg.Clock.Now()
	pl.mu.Lock()
	waits := pl.marker.Unmarked()
	if waits {
		pc.guard.held = append(pc.guard.held, heldReply{c, r})
		pl.wakeLocked()
	} else {
		r.Err = pl.whyNotVotingLocked(now)
	}
	pl.mu.Unlock()
	if !waits {
		c.Answer(r)
	}
}
