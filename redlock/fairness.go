package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// A name is held inside a process for so many times in a row, and for so long, before
// other processes that wait for it get their turn (docs/rules.md rule 21).
const (
	maxStreak     = 16
	maxStreakTime = 50 * time.Millisecond
)

// maxYieldDoublings bounds how often the pause in which others go first doubles.
const maxYieldDoublings = 6

// nameState is a name's: while somebody of this process holds it or waits for it, and for a
// while after when somebody of another process waits. All of it is guarded by
// waiters.mu.
type nameState struct {
	table  *waitTable
	name   string
	holder *Lock
	head   *waiter // the first in line

	// The row of holds of this process:
	streak        int           // how many there were, passed on or taken anew
	streakStart   clock.Instant // from when on
	releasedAt    clock.Instant // when the last one ended
	remoteWaiters bool          // somebody of another process waits, as far as the nodes said last
	mustYield     bool          // others go first
	emptyYields   int           // how often in a row they did not take their turn

	alarm     alarm.Alarm // forgets a place that is kept for its row
	lingering bool        // it was set once
}

// holdBegins notes a hold that was not passed on. It goes on with the row where others had
// less time than pause, or than the pauses of late, to take the name.
func (s *nameState) holdBegins(at clock.Instant, pause time.Duration) {
	if s.streak == 0 || at.Sub(s.releasedAt) >= pause<<s.emptyYields {
		s.streak, s.streakStart = 0, at
	}
}

// holdEnds counts a hold that ends, and reports whether the row does. If others are known to
// wait it is their turn then.
func (s *nameState) holdEnds(now clock.Instant) (over bool) {
	s.streak++
	s.releasedAt = now
	if s.streak < maxStreak && now.Sub(s.streakStart) < maxStreakTime {
		return false
	}
	s.streak, s.streakStart, s.mustYield = 0, now, s.remoteWaiters
	return true
}

// lostTo notes that contenders of other processes have votes for the name, and perhaps
// hold it: so they had their turn.
func (s *nameState) lostTo(held bool) {
	s.streak, s.mustYield = 0, false
	if held {
		s.emptyYields = 0
	}
}

// yieldFor is for how long the one who comes next lets others go first, if it is their turn.
// What has passed since the name was free counts, and doing nothing else than that is
// not in vain.
func (s *nameState) yieldFor(now clock.Instant, pause time.Duration) time.Duration {
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

// getOrCreateLocked finds or makes a name's place. Called under mu.
func (wt *waitTable) getOrCreateLocked(name string) *nameState {
	p := wt.names[name]
	if p != nil {
		return p
	}
	if last := len(wt.freeList) - 1; last >= 0 {
		p, wt.freeList = wt.freeList[last], wt.freeList[:last]
	} else {
		p = &nameState{}
	}
	p.table, p.name = wt, name
	wt.names[name] = p
	return p
}

// removeIfIdleLocked forgets a place that nobody needs, but later if others wait for the name: whoever
// of this process takes it again soon goes on with the row. Called under mu.
func (wt *waitTable) removeIfIdleLocked(p *nameState) {
	if p.holder != nil || p.head != nil {
		return
	}
	if p.remoteWaiters && !wt.closed {
		p.lingering = true
		wt.l.alarms.Set(&p.alarm, wt.l.now().Add(linger), linger, p)
		return
	}
	delete(wt.names, p.name)
	if p.lingering {
		wt.l.alarms.Clear(&p.alarm) // it may be ringing
		return
	}
	if len(wt.freeList) < maxFree {
		*p = nameState{}
		wt.freeList = append(wt.freeList, p)
	}
}

// maxFree bounds what is kept to be used again.
const maxFree = 256

// Fire is called by the Locker's alarms, some time after the place was of use.
func (s *nameState) Fire(*alarm.Alarm) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.holder == nil && s.head == nil && s.table.names[s.name] == s {
		s.remoteWaiters = false
		s.table.removeIfIdleLocked(s)
	}
}
