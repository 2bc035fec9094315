package waiting

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// A process holds a name at most this many times in a streak, and for this long, before it yields
// to other processes that wait (docs/dev/rules.md rule 21).
const (
	MaxStreak     = 16
	MaxStreakTime = 50 * time.Millisecond
)

// maxYieldDoublings bounds how often the duration of a yield doubles.
const maxYieldDoublings = 6

// streak counts the successive holds of a name by this process. It decides when other processes
// have their turn.
type streak struct {
	start         clock.Instant // of the first hold
	releasedAt    clock.Instant // end of the last hold
	holds         uint8         // by handoff or new acquisition, up to MaxStreak
	emptyYields   uint8         // successive yields that no other process used
	remoteWaiters bool          // other processes wait, as the nodes last reported
	mustYield     bool          // other processes go first
}

// holdBegins records a hold that was not handed off. It continues the streak if other processes had
// less time than pause, doubled for each fruitless yield, to acquire the name.
func (s *streak) holdBegins(at clock.Instant, pause time.Duration) {
	if s.holds == 0 || at.Sub(s.releasedAt) >= pause<<s.emptyYields {
		s.holds, s.start = 0, at
	}
}

// holdEnds counts a hold that ends, and reports whether the streak is over. If other processes are
// known to wait, the next waiter must yield to them.
func (s *streak) holdEnds(now clock.Instant) (over bool) {
	s.holds++
	s.releasedAt = now
	if s.holds < MaxStreak && now.Sub(s.start) < MaxStreakTime {
		return false
	}
	s.holds, s.start, s.mustYield = 0, now, s.remoteWaiters
	return true
}

// lostTo records that contenders of other processes have votes for the name, so they had their
// turn. With held they hold it.
func (s *streak) lostTo(held bool) {
	s.holds, s.mustYield = 0, false
	if held {
		s.emptyYields = 0
	}
}

// yieldFor returns how long the next waiter must let other processes go first; 0 if it need not.
// The time since the release counts. A yield that has passed already is not counted as fruitless.
func (s *streak) yieldFor(now clock.Instant, pause time.Duration) time.Duration {
	if !s.mustYield {
		return 0
	}
	s.mustYield = false
	left := pause<<s.emptyYields - now.Sub(s.releasedAt)
	if left > 0 {
		s.emptyYields = min(s.emptyYields+1, maxYieldDoublings-1)
	}
	return max(left, 0)
}

// NoteRemoteWaiters records whether other processes wait for the names of a lock that ended at an
// instant.
func (t *Table) NoteRemoteWaiters(h *Hold, ended clock.Instant, others bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range h.Names {
		s := t.names[name]
		switch {
		case s == nil && !others:
			continue
		case s == nil:
			s = t.getOrCreateLocked(name)
			s.holds, s.start, s.releasedAt = 1, h.Began, ended
		}
		s.remoteWaiters = others
		t.removeIfIdleLocked(s)
	}
}
