package clock

import (
	"sync/atomic"
	"time"
)

// wallSlack is how far wall and monotonic clock may part before it is taken
// for a suspend. Some systems move the wall clock in steps of 16 ms; none
// suspends and wakes within 20 ms.
const wallSlack = int64(20 * time.Millisecond)

// wallClock counts as elapsed whatever the monotonic or the wall clock says
// has elapsed, for systems that we can't ask how long they slept. A wall clock
// set forward ends leases early, which is the safe side; one set back changes
// nothing.
//
// It is not the larger of two times since some start: such a clock would
// stand still while a wall clock that had been ahead is caught up with, and a
// lease would live on in that time. Every forward step is added instead, and
// the monotonic clock runs on beneath.
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

// resync reads again, because a thread preempted between the two clocks sees
// them part too, and that passes. What stays is added if it is forward.
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
