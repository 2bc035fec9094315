// Package clock measures elapsed time for leases. It is the only package of
// this module that reads a clock; everything else is given an [Instant].
//
// # Why not time.Time
//
// A lease ends on a machine whose clocks can't be trusted to agree with any
// other, so only elapsed time may decide (docs/dev/hazards.md H7, H8). A [time.Time]
// carries a monotonic reading. It drops the reading silently when it is rounded, moved
// to another zone or marshalled. From then on it compares by the wall clock,
// which an operator or NTP may set back. And while it has that reading it does
// not count the time that the machine was suspended: Go reads CLOCK_MONOTONIC
// on Linux (golang/go#24595, docs/dev/hazards.md H62), so a laptop or a suspended
// machine that wakes an hour later would take a lock of ten seconds for its
// own. An [Instant] has one reading, no zone, no wall time, and can't be
// confused with the time of another machine.
//
// # Which clock
//
//   - [System] counts suspended time. Programs use it.
//   - [Runtime] follows the Go runtime, and so the virtual time of a
//     testing/synctest bubble. It does not count suspended time.
//   - [Skewed] runs at another rate than its base, jumps, stalls and is
//     suspended at a test's command.
//
// No clock of a machine sees that the machine itself was stopped from outside
// (a virtual machine paused or restored, docs/dev/hazards.md H63). Against that only a
// question to a quorum and a fencing token help.
package clock
