package redlock

import "time"

// tiedLocked reports whether enough nodes have voted for a quorum, some with a grant and some with a
// refusal. With fewer votes no contender can win, and the node timeout tells a fault. Called under mu.
func (r *round) tiedLocked() bool {
	granted, refused := r.tally.Granted(), r.tally.Refused()
	return granted > 0 && refused > 0 && granted+refused >= r.tally.Need()
}

// A tied attempt waits at least this many times as long as the nodes that answered took, and at least
// this long.
const (
	tieFactor = 4
	minTie    = 10 * time.Millisecond
)

// armTieTimeout ends an attempt's vote soon after a tie. Of two contenders that have a vote
// each, neither must hold on to it for the whole node timeout because the node that
// could break the tie is frozen (docs/rules.md rule 22). To lose is always safe. A distant node is
// waited for by its own recent round trips (docs/adr/0014-votes-are-split-held-or-missing.md).
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

// tieTimeout is how long to wait for more answers when others took so long.
func tieTimeout(took time.Duration) time.Duration { return max(tieFactor*took, minTie) }
