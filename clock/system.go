package clock

// system is one for the whole process, so that instants of any two calls of System can be compared.
var system = newSystem()

// System returns the clock of this machine. It counts the time that the machine was suspended: the
// first Now after waking includes all of it. Every call returns the same clock. Its timers are the
// runtime's and do not count suspended time.
//
// On Linux it is CLOCK_BOOTTIME, to within 10 µs. A reading costs no system call as long as the
// wall clock and the monotonic clock advance alike. A suspend is therefore missed if the wall clock
// was set back by exactly the suspended time, to 10 µs, before anything read this clock again.
//
// On other systems, and in a sandbox that denies CLOCK_BOOTTIME, it is the monotonic clock plus
// every forward step of the wall clock by more than 20 ms. Setting the wall clock forward then ends
// leases early, and setting it back changes nothing.
func System() Clock { return system }
