package redlock

import (
	"math/bits"
	"math/rand/v2"
	"time"
)

// tied reports whether both a grant and a refusal have been counted. Called under mu.
func (r *round) tied() bool { return r.tally.Granted() > 0 && r.tally.Refused() > 0 }

// A tied attempt waits for nodes that are slower than this many times those that
// answered, and for this long at the least. After attempts that failed every second one
// waits twice as long, every fourth four times, and so on.
const (
	patience      = 4
	patienceLeast = 10 * time.Millisecond
	patienceMost  = 6 // doublings
)

// hurry ends an attempt's vote soon after a tie. Of two contenders that have a vote
// each, neither must hold on to it for the whole node timeout because the node that
// could break the tie is frozen (docs/rules.md rule 22). To lose is always safe. Who has no
// vote holds nobody up and waits for far nodes, which may be a quorum without the one
// that refused; and with one, the longer patience reaches them in the end. It is drawn
// by lot: were all to wait longer and longer, those with a vote each would go on to tie.
func (r *round) hurry() {
	now := r.l.now()
	d := grace(now.Sub(r.start), r.tries)
	if at := now.Add(d); at.Before(r.until) {
		r.l.alarms.Set(&r.alarm, at, d, r)
	}
}

// grace is how long to wait for more when others took so long, after so many attempts.
func grace(took time.Duration, tries int) time.Duration {
	return max(patience*took, patienceLeast) << min(bits.TrailingZeros(rand.Uint()), tries, patienceMost)
}
