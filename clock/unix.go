package clock

import "time"

// Wall returns the wall clock of this machine in microseconds since 1970. It can be set forward or
// back at any time. Use it to compare it with the clocks of other machines, never to measure: no
// lease may depend on it. In a testing/synctest bubble it shows the bubble's time.
func Wall() int64 { return time.Now().UnixMicro() }
