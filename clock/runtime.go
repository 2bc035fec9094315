package clock

import "time"

// Runtime returns a clock that follows the Go runtime's monotonic clock. Its origin is this call.
// In a testing/synctest bubble it shows the bubble's virtual time, and must be made in the bubble.
// It does not count the time that the machine is suspended: outside of tests use [System].
func Runtime() Clock { return runtimeClock{base: time.Now()} }

type runtimeClock struct{ base time.Time }

// Now subtracts within the monotonic reading, which base still has.
func (c runtimeClock) Now() Instant { return Instant(time.Since(c.base)) }

func (runtimeClock) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
