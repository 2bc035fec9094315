package pool

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// health is the result of the health checks of a connection's server (health_check.go), which a
// server may answer by an error. All fields are guarded by pipeline.mu. Only the reader changes
// failed, why and acquire.
type health struct {
	failed  int           // checks in a row that were answered by an error
	why     error         // why the node does not vote, after maxFailedChecks
	acquire error         // why the last acquire was answered by an error; nil after a vote
	last    clock.Instant // when the last check began
	next    clock.Instant // when the next one is due; noDeadline while one is in flight
	timer   clock.Timer   // of check
}

// maxFailedChecks is how many failed checks in a row keep a node from voting.
const maxFailedChecks = 3

// checkEveryLocked returns the pause until the next check. An unhealthy server with parked undos
// gets a check or a probe every unhealthyEvery, alternately, and one with acquires to sweep a check
// each second.
func (pc *pipeConn) checkEveryLocked() time.Duration {
	switch {
	case pc.unfit == nil && pc.health.failed == 0:
		return healthyEvery
	// A probe, which is a parked undo, comes in between: see probeBetweenLocked.
	case pc.pipeline.parked.waiting.len() > 0 || len(pc.pipeline.unacked.undone) > 0:
		return 2 * unhealthyEvery
	}
	return unhealthyEvery
}

// beginCheckLocked reports whether a check is due, and marks it as in flight.
func (pc *pipeConn) beginCheckLocked() bool {
	// The check before this one is still unanswered. On a frozen server checks must not pile up.
	if pc.health.next == noDeadline {
		return false
	}
	pc.health.last, pc.health.next = pc.pipeline.node.cfg.Clock.Now(), noDeadline
	if pc.unfit != nil || pc.health.failed > 0 {
		pc.pipeline.probeBetweenLocked()
	}
	return true
}

// checkSoon advances the next check, to unhealthyEvery after the last one at the earliest. A
// server that answers every command by an error therefore causes two checks a second, not one for
// each command.
func (pc *pipeConn) checkSoon() {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	if pc.pipeline.conn != pc || pc.health.next == noDeadline {
		return
	}
	now := pc.pipeline.node.cfg.Clock.Now()
	if soonest := max(now, pc.health.last.Add(unhealthyEvery)); soonest.Before(pc.health.next) {
		// Only ever earlier: many errors at once still cause one check.
		pc.health.next = soonest
		pc.health.timer.Reset(soonest.Sub(now))
	}
}

// checkFailed counts a check that the server answered by an error. Only the reader calls it.
func (pc *pipeConn) checkFailed(err error) {
	pc.pipeline.mu.Lock()
	// One failed check may be a slow script on the server. Several in succession mean that the server
	// cannot vote.
	if pc.health.failed++; pc.health.failed >= maxFailedChecks {
		pc.health.why = fmt.Errorf("pool: %w: %s failed its last health checks (INFO): %w", command.ErrUnfit, pc.pipeline.node.label, err)
	}
	pc.pipeline.mu.Unlock()
}
