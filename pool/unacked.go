package pool

import (
	"context"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/transport"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// unackedAcquires has the acquires that a server may execute late, and the timer of their sweeps. It is guarded by pipeline.mu.
type unackedAcquires struct {
	undo.Late
	timer timer.Alarm // of the next sweep
}

var errTooManyUnacked = fmt.Errorf(
	"pool: %d acquires may still be executed: what further ones make is not undone, and remains until its TTL", undo.MaxLate)

// sweepLaterLocked notes that an undo was answered, or is too late for its owner. If its acquire may
// still be executed, sweeps begin.
func (pl *pipeline) sweepLaterLocked(c *command.Command) {
	pl.unacked.Undone(c, pl.node.cfg.Clock.Now())
	pl.armSweepLocked()
}

// armSweepLocked sets the timer to the next sweep. Without a connection it does not: serveConn calls
// armSweepLocked for the next one.
func (pl *pipeline) armSweepLocked() {
	o := &pl.unacked
	if due := o.Due(); pl.conn != nil && due != 0 {
		o.timer.Set(pl.node.cfg.Clock, max(0, due.Sub(pl.node.cfg.Clock.Now())), pl.sweep)
	}
}

// sweep is the timer's function. It sends one sweep, unless the server answers by errors: it then gets
// checks and probes, two a second.
func (pl *pipeline) sweep() {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	o, now := &pl.unacked, pl.node.cfg.Clock.Now()
	if due := o.Due(); pl.conn == nil || due == 0 || now.Before(due) {
		return
	}
	unfit, parked := pl.conn.state.Unfit(), pl.parked.Len() > 0
	if !pl.conn.state.Failing() && (!unfit || !parked) {
		if r := o.Sweep(now, pl.node.kind.severalSlots() && !pl.node.cfg.Proxied); r != nil {
			pl.queue.push(&command.Command{Request: r})
			pl.wakeLocked()
		}
	}
	least := undo.SweepPause
	if unfit || parked { // a check or a probe comes each second
		least *= 2
	}
	o.Wait(now.Add(least))
	pl.armSweepLocked()
}

// endDeadConns ends on the server the connections that ended with an acquire unanswered.
func (pl *pipeline) endDeadConns(ctx context.Context, s *transport.Conn, f session.Facts) error {
	// Each kill waits for the server, so mu is free meanwhile. Nothing is added: only detach adds, and it runs on this goroutine.
	runID := f.RunID
	if pl.node.cfg.Proxied {
		runID = "" // it may be another server's, and so may be the client IDs
	}
	pl.mu.Lock()
	end, left := pl.unacked.ToEnd(runID)
	pl.mu.Unlock()
	for i, c := range end {
		killed, err := kill(ctx, s, c.ClientID)
		if err != nil {
			return err
		}
		if !killed {
			left = append(left, end[i:]...) // the server is not asked again for each of them
			break
		}
	}
	// Before the connection takes commands: an undo that is sent on it already counts on the result.
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.unacked.Connected(left, pl.node.cfg.Clock.Now())
	return nil
}
