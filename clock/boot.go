package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// bootSlack is how far boot readings may be off, upward only, and how far wall
// and monotonic clock may part unnoticed. They are read within some tens of
// nanoseconds of each other; no suspend is anywhere near so short; and it is a
// two-hundredth of the fixed part of the default drift.
const bootSlack = int64(10 * time.Microsecond)

// bootTries bounds how often a sighting is tried. A try fails when the thread
// is preempted in it, so two are rarely needed.
const bootTries = 3

// bootClock counts suspended time as the kernel does, and asks the kernel only
// when a suspend is possible, because the question costs a system call: Go
// reads CLOCK_BOOTTIME by none of its fast paths.
type bootClock struct {
	read func() (mono, wall int64)
	boot func() int64 // CLOCK_BOOTTIME
	seen atomic.Pointer[offset]
}

func newBootClock(read func() (mono, wall int64), boot func() int64) *bootClock {
	c := &bootClock{read: read, boot: boot}
	// A shift that no readings have and less ahead than is ever true: the
	// first Now asks the kernel.
	c.seen.Store(&offset{shift: math.MinInt64 / 2, ahead: math.MinInt64 / 2})
	return c
}

func (c *bootClock) Now() Instant {
	mono, wall := c.read()
	if s := c.seen.Load(); s.stillValid(mono, wall, bootSlack) {
		return Instant(mono + s.ahead)
	}
	return c.resync()
}

// resync reads the kernel's clock between two readings of the others. When these
// are close together and agree, nothing was slept between them, and boot - mono
// of the first is at least the true difference and too large by less than
// bootSlack. Keeping the largest such value is therefore right to within the
// slack, and keeps Now from going back.
func (c *bootClock) resync() Instant {
	var now int64
	for range bootTries {
		s := c.seen.Load()
		mono, wall := c.read()
		boot := c.boot()
		mono2, wall2 := c.read()
		next := &offset{shift: wall - mono, ahead: max(s.ahead, boot-mono)}
		good := mono2-mono <= bootSlack && next.stillValid(mono2, wall2, bootSlack)
		// A sighting that lost the race is dropped: the other may be the later.
		if good && c.seen.CompareAndSwap(s, next) {
			return Instant(mono2 + next.ahead)
		}
		now = max(boot, mono2+s.ahead) // true, and not before what was told
	}
	return Instant(now)
}

func (*bootClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
