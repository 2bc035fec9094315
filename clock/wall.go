package clock

import (
	"sync/atomic"
	"time"
)

// wallSlack is how far wall clock and monotonic clock may diverge before it counts as a suspend.
// Some systems move the wall clock in steps of 16 ms. None suspends and wakes within 20 ms.
const wallSlack = int64(20 * time.Millisecond)

// wallClock counts time as elapsed if the monotonic clock or the wall clock says so, for systems
// that do not report how long they were suspended. A wall clock that is set forward ends leases
// early, which is safe. One that is set back changes nothing.
//
// It is not the larger of two times since some start. Such a clock would stop after the wall clock
// was set back until the monotonic clock has caught up, and a lease would live longer meanwhile.
// Instead every forward step is added, and the monotonic clock continues below it.
type wallClock struct {
	read func() (mono, wall int64)
	seen atomic.Pointer[offset]
}

func newWallClock(read func() (mono, wall int64)) *wallClock {
	c := &wallClock{read: read}
	mono, wall := read()
	c.seen.Store(&offset{shift: wall - mono})
	return c
}

func (c *wallClock) Now() Instant {
	mono, wall := c.read()
	if s := c.seen.Load(); s.stillValid(mono, wall, wallSlack) {
		return Instant(mono + s.ahead)
	}
	return c.resync()
}

// resync reads again, because a thread that was preempted between the two clocks also sees them
// diverge, for that moment only. A divergence that remains is added if it is forward.
func (c *wallClock) resync() Instant {
	for {
		s := c.seen.Load()
		mono, wall := c.read()
		if s.stillValid(mono, wall, wallSlack) {
			return Instant(mono + s.ahead)
		}
		next := &offset{shift: wall - mono, ahead: s.ahead + max(0, wall-mono-s.shift)}
		if c.seen.CompareAndSwap(s, next) {
			return Instant(mono + next.ahead)
		}
	}
}

func (*wallClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
