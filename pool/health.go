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

// lookEvery is the pause until the next check. A server that is checked often and has undos
// parked is asked every lookUnfit as well, but by the check and the probe in turn. Called under
// lane.mu.
func (k *link) lookEvery() time.Duration {
	switch {
	case k.unfit == nil && k.health.failed == 0:
		return lookFit
	case k.lane.parked.waiting.len() > 0:
		return 2 * lookUnfit
	}
	return lookUnfit
}

// beginCheck reports whether a check is due, and books it. Called under lane.mu.
func (k *link) beginCheck() bool {
	if k.health.next == undetermined {
		return false
	}
	k.health.last, k.health.next = k.lane.node.cfg.Clock.Now(), undetermined
	if k.unfit != nil || k.health.failed > 0 {
		k.lane.probeBetween()
	}
	return true
}

// lookSoon brings the next check forward, to lookUnfit behind the last one at the soonest.
func (k *link) lookSoon() {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	if k.lane.link != k || k.health.next == undetermined {
		return
	}
	now := k.lane.node.cfg.Clock.Now()
	if soonest := max(now, k.health.last.Add(lookUnfit)); soonest.Before(k.health.next) {
		k.health.next = soonest
		k.looks.Reset(soonest.Sub(now))
	}
}

// checkFailed counts a check that the server answered by an error. Called by the reader.
func (k *link) checkFailed(err error) {
	k.lane.mu.Lock()
	before := k.whyUnfit()
	if k.health.failed++; k.health.failed >= maxFailedChecks {
		k.health.why = fmt.Errorf("pool: %w: %s has answered its last health checks (INFO) by errors: %w", ErrUnfit, k.lane.node.label(), err)
	}
	news := before == nil && k.health.why != nil
	k.lane.mu.Unlock()
	if news {
		k.tellFitness()
	}
}

// whyUnfit is why the node does not vote; nil when it does.
func (k *link) whyUnfit() error {
	if k.unfit != nil {
		return k.unfit
	}
	return k.health.why
}
