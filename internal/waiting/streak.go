package waiting

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// streak counts the successive holds of a name by this process, and knows when other processes have their
// turn.
type streak struct {
	turn
	start      clock.Instant // of the first hold
	unbroken   clock.Instant // since when others had no time to acquire the name
	releasedAt clock.Instant // end of the last hold
	joined     clock.Instant // since when this process waits for its turn; 0 if it does not
	waited     time.Duration // how long it had waited for the present one; 0 if it had not
	gaveUpAt   clock.Instant // when the last of its calls gave up; 0: none did since the last hold
	gaveUp     time.Duration // how long it had waited then
	seenAt     clock.Instant // when another process was last seen; 0: never
	heardAt    clock.Instant // when a release of another process was last heard; 0: never
	heardAge   time.Duration // what it said: all releases of a streak say the same
	said       time.Duration // the age in the announcement of the last release; 0 if it said none
	holds      uint8         // by handoff or new acquisition, up to MaxStreak
	others     bool          // other processes wait, as the nodes last reported
	mustYield  bool          // other processes go first
}

// holdBegins records a hold that was not handed off. It continues the streak if other processes had
// less time than pause to acquire the name. Those that are known to wait may be far away.
func (s *streak) holdBegins(at clock.Instant, pause time.Duration) {
	if s.others && s.heardAt <= s.releasedAt {
		pause = max(pause, maxSlot)
	}
	free := at.Sub(s.releasedAt)
	if s.holds == 0 || free >= pause {
		s.holds, s.start, s.waited = 0, at, s.age(at)
		if s.others {
			s.ownTurn()
			s.heardAge = 0
		}
	}
	if s.unbroken == 0 || free >= pause {
		s.unbroken = at
	}
	s.joined = 0
}

// holdEnds counts a hold that ends, and reports whether the streak is over. If other processes are
// known to wait, the next waiter must yield to them. alone means that nobody in this process waits. Then a hold
// is repeated for a shorter time the more processes wait: it costs them more than it saves.
func (s *streak) holdEnds(now clock.Instant, alone bool) (over bool) {
	s.holds = min(s.holds+1, MaxStreak)
	s.releasedAt = now
	most := MaxStreakTime
	if alone && s.others {
		most = max(minStreakTime, most/time.Duration(max(1, s.waiters)))
	}
	if s.holds < MaxStreak && now.Sub(s.start) < most {
		return false
	}
	s.mustYield = s.others || s.unbroken < s.start && now.Sub(s.unbroken) >= maxUnbroken
	s.holds, s.start = 0, now
	return true
}

// age returns for how long this process has waited; 0 if it does not wait.
func (s *streak) age(now clock.Instant) time.Duration {
	if s.joined == 0 {
		return 0
	}
	return now.Sub(s.joined)
}

// waits records that this process waits for its turn. A call that comes soon after another one gave up continues its wait.
func (s *streak) waits(now clock.Instant) {
	if s.joined == 0 {
		if s.joined = now; s.gaveUpAt != 0 && now.Sub(s.gaveUpAt) < Linger {
			s.joined = now.Add(-s.gaveUp)
		}
	}
}

// givesUp records that no call of this process waits any more. One has waited.
func (s *streak) givesUp(now clock.Instant) {
	s.gaveUpAt, s.gaveUp, s.joined = now, s.age(now), 0
}

// lostTo records that contenders of other processes have votes for the name, so they had their
// turn.
func (s *streak) lostTo(now clock.Instant) {
	s.waits(now)
	s.seenAt = now
	s.holds, s.unbroken, s.mustYield = 0, 0, false
}

// yieldUntil returns until when the next waiter must let other processes go first; 0 if it need not.
func (s *streak) yieldUntil(now clock.Instant) clock.Instant {
	if !s.mustYield {
		return 0
	}
	pause := min(s.releasedAt.Sub(s.unbroken)/unknownShare, MaxForeignPause)
	s.mustYield, s.unbroken = false, 0
	s.waits(min(now, max(s.releasedAt, now.Add(-minSlot)))) // an age of 0 would be unknown
	if s.others {
		pause = s.afterOwn(draw())
	}
	until := s.releasedAt.Add(pause)
	if !until.After(now) {
		return 0
	}
	return until
}

// hears records an announcement, and reports whether it is of another process's release.
func (s *streak) hears(now clock.Instant, r release) bool {
	s.hear(now, r)
	if r.age != 0 && r.age == s.said {
		s.said = 0 // the next release that says so is another process's
		return false
	}
	s.heardAt = now
	if r.age == 0 || r.age != s.heardAge {
		s.otherTurns(1)
	}
	s.heardAge = r.age
	return true
}

// draw returns two random numbers for a turn.
func draw() [2]float64 { return [2]float64{rand.Float64(), rand.Float64()} }
