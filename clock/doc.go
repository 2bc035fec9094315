// Package clock measures elapsed time for leases. All other code of this module is given an
// [Instant].
//
// # Why not time.Time
//
// The clocks of two machines cannot be trusted to agree, so only elapsed time may end a lease. A
// [time.Time] carries a monotonic reading. It drops the reading silently when it is rounded, moved to
// another zone or marshalled. From then on it compares by the wall clock, which an operator or NTP
// may set back.
//
// A time.Time with that reading does not count the time that the machine was suspended: Go reads
// CLOCK_MONOTONIC on Linux (golang/go#24595). A laptop that wakes after an hour would still take a
// lock of ten seconds for its own. An [Instant] has one reading, no zone and no wall time, and cannot
// be confused with the time of another machine.
//
// # Which clock
//
//   - [System] counts suspended time. Programs use it.
//   - [Runtime] follows the Go runtime, and so the virtual time of a testing/synctest bubble. It does
//     not count suspended time.
//
// Package clocktest has a clock that runs at another rate than its base, jumps, stalls and is
// suspended.
//
// No clock of a machine shows that the machine itself was stopped from outside, as a virtual machine
// that is paused or restored. Only a query of a quorum and a fencing token
// help against that.
package clock
