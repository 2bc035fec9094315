package clock

import (
	"math"
	"sync"
	"time"
)

// Skewed is a clock for tests that goes wrong on command. It has two times, as
// a machine has: the one that its timers count, which follows base at a rate
// and stands still while stalled, and the one that Now shows, which is the
// same but for jumps and suspends. All its methods are safe for concurrent
// use, also from functions that its timers run.
type Skewed struct {
	base Clock

	// mu guards all below and the fields of the timers. No function that a
	// timer runs is called under it; base is.
	mu      sync.Mutex
	rate    float64
	stalled bool
	since   Instant // of base: when counted was true
	counted Instant // what the timers had counted then
	off     time.Duration
	waiting map[*skewedTimer]struct{}
}

// NewSkewed returns a clock that shows 0 now and goes like base until it is
// told otherwise.
func NewSkewed(base Clock) *Skewed {
	return &Skewed{base: base, rate: 1, since: base.Now(), waiting: map[*skewedTimer]struct{}{}}
}

// Now returns the present instant of this clock, which goes back when Jump
// says so.
func (s *Skewed) Now() Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(s.base.Now()).Add(s.off)
}

// SetRate makes the clock run r times as fast as base from now on, and its
// timers with it, also those already set. It panics unless r is positive and
// finite.
func (s *Skewed) SetRate(r float64) {
	if !(r > 0) || math.IsInf(r, 1) {
		panic("clock: a rate must be positive and finite")
	}
	s.change(func() { s.rate = r })
}

// Stall makes Now stand still, and the timers with it, as for a paused virtual
// machine: nothing in it could tell.
func (s *Skewed) Stall() { s.change(func() { s.stalled = true }) }

// Resume ends a Stall. Now continues from where it stopped, and timers fire when
// the time they still had to go has passed after the Resume: late by base, by
// the length of the stall. Without a stall it does nothing.
func (s *Skewed) Resume() { s.change(func() { s.stalled = false }) }

// Jump moves Now by d at once, forward or back. Timers do not see it: those
// set before run after the time they were set for, by this clock's rate.
func (s *Skewed) Jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = time.Duration(addSaturating(int64(s.off), int64(d)))
}

// Advance moves Now and the timers forward by d at once: what is due within d runs now,
// each timer on a goroutine of its own and so in no order. It is what a program sees that
// did not get to run for d, and a test's way to let time pass where there is no bubble. It
// panics when d is negative.
func (s *Skewed) Advance(d time.Duration) {
	if d < 0 {
		panic("clock: time does not go back; Jump does")
	}
	s.change(func() { s.counted = s.counted.Add(d) })
}

// Suspend is what a clock that counts suspended time, as [System] does, shows
// of a machine that slept for d: Now advances by d at once, while timers do
// not count it. It panics when d is negative.
func (s *Skewed) Suspend(d time.Duration) {
	if d < 0 {
		panic("clock: nothing is suspended for a negative time")
	}
	s.Jump(d)
}

// count returns what the timers have counted until the base's instant now. The
// product is exact for a rate of 1 and up to 104 days between changes.
func (s *Skewed) count(now Instant) Instant {
	if s.stalled {
		return s.counted
	}
	return s.counted.Add(time.Duration(float64(now.Sub(s.since)) * s.rate))
}

// change closes the account at the old pace, sets the new one and moves the
// base's timers to it.
func (s *Skewed) change(set func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.base.Now()
	s.counted, s.since = s.count(now), now
	set()
	for t := range s.waiting {
		t.arm(now)
	}
}
