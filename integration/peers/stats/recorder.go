// Package stats is the arithmetic of measurements.
package stats

import (
	"math/bits"
	"time"
)

// An octave of durations is divided into so many slots that a recorded duration is off by less than 1 %.
const (
	octaveBits = 6
	octave     = 1 << octaveBits
	slots      = octave * 40 // up to 2^45 ns, ten hours
)

// A Recorder counts durations in slots. It does not allocate, so it does not add to the allocations
// that are measured. The zero value is empty. A Recorder is not safe for concurrent use.
type Recorder [slots]uint32

// Add records d.
func (r *Recorder) Add(d time.Duration) { r[slotOf(d)]++ }

// slotOf returns the slot of a duration. A duration below one octave of nanoseconds has a slot of
// its own; the leading bits of a longer one select its slot.
func slotOf(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < octave {
		return int(n)
	}
	shift := bits.Len64(n) - 1 - octaveBits
	return min((shift+1)*octave+int(n>>shift)-octave, slots-1)
}

// middle returns the duration in the middle of a slot.
func middle(slot int) time.Duration {
	if slot < octave {
		return time.Duration(slot)
	}
	shift := slot/octave - 1
	least := uint64(slot%octave+octave) << shift
	return time.Duration(least + 1<<shift/2)
}
