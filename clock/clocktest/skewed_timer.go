package clocktest

import (
	"math"
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// AfterFunc runs f after d by this clock's timers. They do not count jumps and suspends, and they
// stop during a stall.
func (s *Skewed) AfterFunc(d time.Duration, f func()) clock.Timer {
	t := &skewedTimer{clock: s, f: f}
	t.Reset(d)
	return t
}

// skewedTimer waits by one timer of the base clock, which is set again whenever the rate changes.
// The clock's mutex guards its fields.
type skewedTimer struct {
	clock *Skewed
	f     func()
	due   clock.Instant // by what the clock's timers count
	base  clock.Timer
}

func (t *skewedTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.halt()
	return t.take()
}

func (t *skewedTimer) Reset(d time.Duration) bool {
	s := t.clock
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.base.Now()
	was := t.take()
	s.waiting[t] = struct{}{}
	t.due = s.count(now).Add(d)
	t.arm(now)
	return was
}

// take ends the waiting, and reports whether there was any.
func (t *skewedTimer) take() bool {
	_, was := t.clock.waiting[t]
	delete(t.clock.waiting, t)
	return was
}

// halt stops the base's timer if there is one: a timer made in a stall has
// none until Resume.
func (t *skewedTimer) halt() {
	if t.base != nil {
		t.base.Stop()
	}
}

// arm sets the base's timer for what is left at its instant now, rounded up so
// that it does not fire a fraction too early.
func (t *skewedTimer) arm(now clock.Instant) {
	s := t.clock
	if s.stalled {
		t.halt()
		return
	}
	left := time.Duration(math.MaxInt64)
	if d := math.Ceil(float64(t.due.Sub(s.count(now))) / s.rate); d < math.MaxInt64 {
		left = time.Duration(d)
	}
	if t.base == nil {
		t.base = s.base.AfterFunc(left, t.fire)
		return
	}
	t.base.Reset(left)
}

// fire runs f if the timer is due. It may not be: the base's timer may have
// begun to fire when the pace was changed or the timer reset, or a fraction of
// a nanosecond may be left. Then it is armed for what is left.
func (t *skewedTimer) fire() {
	if t.isDue() {
		t.f()
	}
}

func (t *skewedTimer) isDue() bool {
	s := t.clock
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, waiting := s.waiting[t]; !waiting {
		return false
	}
	now := s.base.Now()
	if s.stalled || s.count(now) < t.due {
		t.arm(now)
		return false
	}
	return t.take()
}
