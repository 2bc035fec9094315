package redlock

import "time"

// tiedLocked reports whether enough nodes for a quorum have voted, some with a grant and some with
// a refusal. With fewer votes no contender can win, and the node timeout detects a fault.
func (r *round) tiedLocked() bool {
	granted, refused := r.tally.Granted(), r.tally.Refused()
	return granted > 0 && refused > 0 && granted+refused >= r.tally.Need()
}

// A tied attempt waits at least tieFactor times as long as the answers took, and at least minTie.
const (
	tieFactor = 4
	minTie    = 10 * time.Millisecond
)

// armTieTimeout ends an attempt's vote soon after a tie. If two contenders have a vote each,
// neither may keep it for the whole node timeout because the deciding node is frozen (docs/dev/rules.md
// rule 22). Losing is always safe. A distant node gets time according to its own recent round trips
// (docs/dev/adr/0014-votes-are-split-held-or-missing.md).
func (r *round) armTieTimeout() {
	now := r.l.now()
	took := now.Sub(r.start)
	d := tieTimeout(took)
	r.mu.Lock()
	for i := range r.ballots {
		if !r.ballots[i].voted {
			d = max(d, r.l.trips[i].patience()-took)
		}
	}
	r.mu.Unlock()
	if at := now.Add(d); at.Before(r.deadline) {
		r.l.alarms.Set(&r.alarm, at, d, r)
	}
}

// tieTimeout returns how long to wait for more answers if the others took this long.
func tieTimeout(took time.Duration) time.Duration { return max(tieFactor*took, minTie) }
