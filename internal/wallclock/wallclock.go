// Package wallclock reads the wall clock of this machine. Package clock measures elapsed time.
package wallclock

import "time"

// Micros returns the wall clock in microseconds since 1970. It can be set forward or back at any
// time. Use it to compare it with the clocks of other machines, never to measure: no lease may
// depend on it. In a testing/synctest bubble it shows the bubble's time.
func Micros() int64 { return time.Now().UnixMicro() }
