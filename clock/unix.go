package clock

import "time"

// Wall is the wall clock of this machine in microseconds since 1970, which anybody
// may set forward or back at any time. It is for comparing it with the clocks of
// other machines, never for measuring: no lease may depend on it (docs/dev/hazards.md H7).
// In a testing/synctest bubble it is the bubble's.
func Wall() int64 { return time.Now().UnixMicro() }
