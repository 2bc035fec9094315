package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// A process holds a name at most this many times in a streak, and for this long, before it yields
// to other processes that wait (docs/dev/rules.md rule 21).
const (
	maxStreak     = 16
	maxStreakTime = 50 * time.Millisecond
)

// maxYieldDoublings bounds how often the duration of a yield doubles.
const maxYieldDoublings = 6

// nameState is the state of one name. It exists while a lock of this process holds the name or a
// waiter is at its head, and for a while after that if other processes wait. waitTable.mu guards
// all of it.
type nameState struct {
	table  *waitTable
	name   string
	holder *Lock
	head   *waiter // at the head of the name's queue

	// The streak of holds of this process:
	streak        int           // number of holds, by handoff or new acquisition
	streakStart   clock.Instant // start of the first
	releasedAt    clock.Instant // end of the last
	remoteWaiters bool          // other processes wait, as the nodes last reported
	mustYield     bool          // other processes go first
	emptyYields   int           // successive yields that no other process used

	alarm     alarm.Alarm // removes a state that lingers for its streak
	lingering bool        // alarm was set at some time
}

// holdBegins records a hold that was not handed off. It continues the streak if other processes had
// less time than pause, doubled for each fruitless yield, to acquire the name.
func (s *nameState) holdBegins(at clock.Instant, pause time.Duration) {
	if s.streak == 0 || at.Sub(s.releasedAt) >= pause<<s.emptyYields {
		s.streak, s.streakStart = 0, at
	}
}

// holdEnds counts a hold that ends, and reports whether the streak is over. If other processes are
// known to wait, the next waiter must yield to them.
func (s *nameState) holdEnds(now clock.Instant) (over bool) {
	s.streak++
	s.releasedAt = now
	if s.streak < maxStreak && now.Sub(s.streakStart) < maxStreakTime {
		return false
	}
	s.streak, s.streakStart, s.mustYield = 0, now, s.remoteWaiters
	return true
}

// lostTo records that contenders of other processes have votes for the name, so they had their
// turn. With held they hold it.
func (s *nameState) lostTo(held bool) {
	s.streak, s.mustYield = 0, false
	if held {
		s.emptyYields = 0
	}
}

// yieldFor returns how long the next waiter must let other processes go first; 0 if it need not.
// The time since the release counts. A yield that has passed already is not counted as fruitless.
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

// getOrCreateLocked returns the state of a name, and makes it if necessary.
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

// removeIfIdleLocked removes the state of a name that is neither held nor waited for. If other
// processes wait it does so only later, so that the streak continues if this process acquires the
// name again soon.
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
		wt.l.alarms.Clear(&p.alarm) // it may be firing
		return
	}
	if len(wt.freeList) < maxFree {
		*p = nameState{}
		wt.freeList = append(wt.freeList, p)
	}
}

// maxFree bounds the list of states for reuse.
const maxFree = 256

// Fire removes the state of a name that has been idle for a while.
func (s *nameState) Fire(*alarm.Alarm) {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	if s.holder == nil && s.head == nil && s.table.names[s.name] == s {
		s.remoteWaiters = false
		s.table.removeIfIdleLocked(s)
	}
}
