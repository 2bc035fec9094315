package vote

import "time"

// tiedLocked reports whether enough nodes for a quorum have voted, some with a grant and some with
// a refusal. With fewer votes no contender can win, and the node timeout detects a fault.
func (r *Round) tiedLocked() bool {
	granted, refused := r.tally.Granted(), r.tally.Refused()
	return granted > 0 && refused > 0 && granted+refused >= r.tally.Need()
}

// A tied vote waits at least tieFactor times as long as the answers took, and at least minTie. It
// waits for tripsPatience round trips of a distant node.
const (
	tieFactor     = 4
	minTie        = 10 * time.Millisecond
	tripsPatience = 2
)

// armTieTimeout ends an acquire's vote soon after a tie. If two contenders have a vote each, neither
// may keep it for the whole node timeout because the deciding node is frozen (docs/dev/rules.md
// rule 22). Losing is always safe. A distant node gets time according to its own measured round trip
// (docs/dev/adr/0014-votes-are-split-held-or-missing.md).
//
// Another answer may decide the round before the timer is set here. The timer then finds no node
// uncounted that could change the decision.
func (r *Round) armTieTimeout() {
	now := r.group.Clock.Now()
	took := now.Sub(r.Start)
	d := TieTimeout(took)
	r.mu.Lock()
	for i := range r.ballots {
		if !r.ballots[i].Counted {
			d = max(d, r.group.Patience(i)-took)
		}
	}
	r.mu.Unlock()
	if at := now.Add(d); at.Before(r.deadline) {
		r.group.Timers.Set(&r.timer, at, (*voteTimer)(r))
	}
}

// TieTimeout returns how long to wait for more answers if the others took this long.
func TieTimeout(took time.Duration) time.Duration { return max(tieFactor*took, minTie) }

// Patience returns how long after its start a tied vote waits for a node. It is 0 for a node that
// was never measured or that is silent: it left an attempt unanswered and has not answered in time since.
func (g *Group) Patience(node int) time.Duration {
	return tripsPatience * time.Duration(g.trips[node].Load())
}
