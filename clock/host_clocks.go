package clock

import "time"

// processStart is the origin of the readings below. It keeps its monotonic reading, which Sub uses.
var processStart = time.Now()

// hostClocks reads the two clocks that Go reads without a system call, both in nanoseconds: the
// monotonic clock since the process began, and the wall clock since 1970.
func hostClocks() (mono, wall int64) {
	t := time.Now()
	return int64(t.Sub(processStart)), t.UnixNano()
}

// offset is the relation of the clocks when they were last seen to diverge. shift is the wall clock
// less the monotonic clock at that time. ahead is what to add to the monotonic clock from then on.
//
// shift alone shows every suspend. On waking, the operating system adds the suspended time to the
// wall clock and not to the monotonic clock, in one step that no reader can see half done.
// Otherwise only setting the clock and a leap second change shift, because NTP adjusts the rate of
// both alike. So while shift is constant there was no suspend, and no system call is needed. A
// suspend would be missed only if the wall clock were set back by exactly the suspended time, to
// some microseconds, before any reading in between.
type offset struct{ shift, ahead int64 }

// stillValid reports whether the readings still fit the offset, to within slack.
func (s *offset) stillValid(mono, wall, slack int64) bool {
	d := wall - mono - s.shift
	return -slack <= d && d <= slack
}
