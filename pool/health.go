package pool

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// health is what the checks of a connection's server have come to: those are the looks of
// look.go, which a server may answer by an error. All is guarded by lane.mu, and changed by
// the reader, but for the instants.
type health struct {
	failed int           // checks in a row that were answered by an error
	why    error         // why the node does not vote: maxFailedChecks were
	last   clock.Instant // when the last one began
	next   clock.Instant // when the next one is due; undetermined while one is under way
}

// maxFailedChecks is how many failed checks in a row keep a node from voting.
const maxFailedChecks = 3

// checkEvery is the pause until the next check. A server that is checked often and has undos
// parked is asked every unhealthyEvery as well, but by the check and the probe in turn. Called under
// lane.mu.
func (pc *pipeConn) checkEvery() time.Duration {
	switch {
	case pc.unfit == nil && pc.health.failed == 0:
		return healthyEvery
	case pc.pipeline.parked.waiting.len() > 0:
		return 2 * unhealthyEvery
	}
	return unhealthyEvery
}

// beginCheck reports whether a check is due, and books it. Called under lane.mu.
func (pc *pipeConn) beginCheck() bool {
	if pc.health.next == noDeadline {
		return false
	}
	pc.health.last, pc.health.next = pc.pipeline.node.cfg.Clock.Now(), noDeadline
	if pc.unfit != nil || pc.health.failed > 0 {
		pc.pipeline.probeBetweenLocked()
	}
	return true
}

// checkSoon brings the next check forward, to unhealthyEvery behind the last one at the soonest.
func (pc *pipeConn) checkSoon() {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	if pc.pipeline.conn != pc || pc.health.next == noDeadline {
		return
	}
	now := pc.pipeline.node.cfg.Clock.Now()
	if soonest := max(now, pc.health.last.Add(unhealthyEvery)); soonest.Before(pc.health.next) {
		pc.health.next = soonest
		pc.healthTimer.Reset(soonest.Sub(now))
	}
}

// checkFailed counts a check that the server answered by an error. Called by the reader.
func (pc *pipeConn) checkFailed(err error) {
	pc.pipeline.mu.Lock()
	before := pc.whyUnfit()
	if pc.health.failed++; pc.health.failed >= maxFailedChecks {
		pc.health.why = fmt.Errorf("pool: %w: %s has answered its last health checks (INFO) by errors: %w", ErrUnfit, pc.pipeline.node.label(), err)
	}
	news := before == nil && pc.health.why != nil
	pc.pipeline.mu.Unlock()
	if news {
		pc.logFitness()
	}
}

// whyUnfit is why the node does not vote; nil when it does.
func (pc *pipeConn) whyUnfit() error {
	if pc.unfit != nil {
		return pc.unfit
	}
	return pc.health.why
}
