package clocktest

import (
	"math"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Skewed is a clock for tests that shows errors on command. It has two times, as a machine has. Its
// timers count a time that follows base at a rate, and that stops during a stall. Now adds jumps
// and suspends to that time. All methods are safe for concurrent use, also by functions that its
// timers run.
type Skewed struct {
	base clock.Clock

	// mu guards the fields below and those of the timers. base is called under it, and no
	// function of a timer is.
	mu      sync.Mutex
	rate    float64
	stalled bool
	since   clock.Instant // base's instant for which counted is right
	counted clock.Instant // the time that the timers had counted then
	off     time.Duration
	waiting map[*skewedTimer]struct{}
}

// NewSkewed returns a clock that shows 0 now and follows base until another method changes it.
func NewSkewed(base clock.Clock) *Skewed {
	return &Skewed{base: base, rate: 1, since: base.Now(), waiting: map[*skewedTimer]struct{}{}}
}

// Now returns the present instant of this clock. It goes back after a Jump by a negative time.
func (s *Skewed) Now() clock.Instant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(s.base.Now()).Add(s.off)
}

// SetRate makes the clock run r times as fast as base from now on. Timers follow, also those that
// are already set. SetRate panics unless r is positive and finite.
func (s *Skewed) SetRate(r float64) {
	if !(r > 0) || math.IsInf(r, 1) {
		panic("clocktest: a rate must be positive and finite")
	}
	s.change(func() { s.rate = r })
}

// Stall stops Now and the timers, as in a virtual machine that is paused: no program in it can
// detect that.
func (s *Skewed) Stall() { s.change(func() { s.stalled = true }) }

// Resume ends a Stall. Now continues from where it stopped. Timers fire after the time that they
// had left at the Stall. Without a stall Resume does nothing.
func (s *Skewed) Resume() { s.change(func() { s.stalled = false }) }

// Jump moves Now by d at once, forward or back. Timers are not affected: those that are set fire
// after their time by this clock's rate.
func (s *Skewed) Jump(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off = time.Duration(clock.Instant(s.off).Add(d))
}

// Advance moves Now and the timers forward by d at once. Timers that are due within d fire now,
// each on a goroutine of its own and therefore in no order. A program that was not scheduled for d
// sees the same. Advance lets time pass in a test outside of a bubble. It panics if d is negative.
func (s *Skewed) Advance(d time.Duration) {
	if d < 0 {
		panic("clocktest: time does not go back; Jump does")
	}
	s.change(func() { s.counted = s.counted.Add(d) })
}

// Suspend simulates a machine that was suspended for d, with a clock that counts suspended time, as
// [clock.System] does. Now advances by d at once, and timers do not count d. Suspend panics if d is
// negative.
func (s *Skewed) Suspend(d time.Duration) {
	if d < 0 {
		panic("clocktest: nothing is suspended for a negative time")
	}
	s.Jump(d)
}

// count returns the time that the timers have counted at the base's instant now. The product is
// exact for a rate of 1, and for up to 104 days between changes.
func (s *Skewed) count(now clock.Instant) clock.Instant {
	if s.stalled {
		return s.counted
	}
	return s.counted.Add(time.Duration(float64(now.Sub(s.since)) * s.rate))
}

// change counts the time so far at the old rate, applies the new setting, and sets the base's
// timers again.
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
