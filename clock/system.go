package clock

// system is one for the whole process, so that instants of any two calls of
// System can be compared.
var system = newSystem()

// System returns the clock of this machine, which counts the time that the
// machine was suspended: the first Now after waking has all of it. It is the
// same clock in every call. Its timers are the runtime's and do not count
// suspended time.
//
// On Linux it is CLOCK_BOOTTIME, to within 10 µs. (A suspend is missed only if
// the wall clock was set back by the very same time, to 10 µs, before anything
// read this clock again: that is how a reading can cost no system call.)
// On other systems, and in a sandbox that denies that clock, it is the monotonic clock
// plus every forward step of the wall clock by more than 20 ms. So setting the wall
// clock forward ends leases early, and setting it back changes nothing.
func System() Clock { return system }
