package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// bootSlack is how far readings of CLOCK_BOOTTIME may be too large, and how far wall clock and
// monotonic clock may diverge unnoticed. They are read within some tens of nanoseconds of each
// other. No suspend is that short. It is a two-hundredth of the fixed part of the default drift.
const bootSlack = int64(10 * time.Microsecond)

// bootTries bounds how often resync tries. A try fails if the thread is preempted during it, so two
// are rarely needed.
const bootTries = 3

// bootClock counts suspended time as the kernel does. It queries the kernel only when a suspend is
// possible, because that is a system call: Go has no fast path for CLOCK_BOOTTIME.
type bootClock struct {
	read func() (mono, wall int64)
	boot func() int64 // CLOCK_BOOTTIME
	seen atomic.Pointer[offset]
}

func newBootClock(read func() (mono, wall int64), boot func() int64) *bootClock {
	c := &bootClock{read: read, boot: boot}
	// No reading has this shift, and ahead is less than any true value: the first Now queries
	// the kernel.
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

// resync reads the kernel's clock between two readings of the others. If these are close together
// and agree, no time was suspended between them. Then boot - mono of the first is at least the true
// difference, and too large by less than bootSlack. To keep the largest such value is right to
// within the slack, and prevents Now from going back.
func (c *bootClock) resync() Instant {
	var now int64
	for range bootTries {
		s := c.seen.Load()
		mono, wall := c.read()
		boot := c.boot()
		mono2, wall2 := c.read()
		next := &offset{shift: wall - mono, ahead: max(s.ahead, boot-mono)}
		good := mono2-mono <= bootSlack && next.stillValid(mono2, wall2, bootSlack)
		// If another goroutine stored its result first, this one is dropped: the other may be later.
		if good && c.seen.CompareAndSwap(s, next) {
			return Instant(mono2 + next.ahead)
		}
		now = max(boot, mono2+s.ahead) // right, and not before an instant that was returned
	}
	return Instant(now)
}

func (*bootClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
