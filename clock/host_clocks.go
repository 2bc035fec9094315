package clock

import "time"

// processStart is the origin of the readings below. It keeps its monotonic
// reading, which is what Sub takes.
var processStart = time.Now()

// hostClocks reads the two clocks that Go reads without entering the kernel: the
// monotonic one, since the process began, and the wall clock, since 1970, both
// in nanoseconds.
func hostClocks() (mono, wall int64) {
	t := time.Now()
	return int64(t.Sub(processStart)), t.UnixNano()
}

// offset is what was found when wall and monotonic clock were last seen to
// part: shift is wall - mono then, ahead is what to add to mono from then on.
//
// The whole trick of this package is that a suspend can't be missed by looking
// at shift alone. On waking, the operating system adds the time slept to the
// wall clock and not to the monotonic one, in one step that no reader can see
// half done; and nothing else moves shift but a set clock and a leap second,
// because NTP disciplines the rate of both alike. So while shift stands still,
// no time was slept, and no question to the kernel is needed. (It would be
// missed if the wall clock were set back by what the machine had slept, to the
// slack of microseconds, before any reading in between.)
type offset struct{ shift, ahead int64 }

// stillValid reports whether the readings still fit the sighting, to within slack.
func (s *offset) stillValid(mono, wall, slack int64) bool {
	d := wall - mono - s.shift
	return -slack <= d && d <= slack
}
