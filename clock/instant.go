package clock

import (
	"math"
	"time"
)

// Instant is a reading of one clock, in nanoseconds since an origin of the clock's own. Instants of
// two clocks, or of two processes, cannot be compared. The zero value is that origin and has no
// other meaning.
type Instant int64

// Add returns the instant d later, or earlier if d is negative. At the ends of the range, about 292
// years either way, it saturates. So a far deadline never becomes one in the past.
func (i Instant) Add(d time.Duration) Instant {
	return Instant(addSaturating(int64(i), int64(d)))
}

// Sub returns the time from j to i. It is negative if i is the earlier one. It saturates like Add.
func (i Instant) Sub(j Instant) time.Duration {
	if j == math.MinInt64 { // it has no negative, so subtract in two steps
		return time.Duration(addSaturating(addSaturating(int64(i), math.MaxInt64), 1))
	}
	return time.Duration(addSaturating(int64(i), -int64(j)))
}

// Before reports whether i is earlier than j.
func (i Instant) Before(j Instant) bool { return i < j }

// After reports whether i is later than j.
func (i Instant) After(j Instant) bool { return i > j }

// addSaturating adds and saturates. A sum overflows exactly if both terms have one sign and the
// wrapped sum has the other.
func addSaturating(a, b int64) int64 {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && s >= 0:
		return math.MinInt64
	}
	return s
}
