//go:build unix

package contenders

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Hold is the time in which a contender could believe that a lock was its own: from when Acquire had returned until it called Release
// or the validity was over. Both are readings of [Uptime].
type Hold struct {
	Contender string
	Names     []string
	From, To  time.Duration
	Fence     int64 // 0 without fencing
	Lost      bool  // and the holder was told so
}

func (h Hold) String() string {
	return fmt.Sprintf("%s held %v from %v to %v (fence %d)", h.Contender, h.Names, h.From, h.To, h.Fence)
}

// Over tells a hold that was over when Acquire returned it.
func (h Hold) Over() bool { return h.To <= h.From }

// Uptime is a clock that all processes of the machine share, and that nobody sets.
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// Overlaps are all pairs of holds that had a name in common at the same time. Locks exclude each other if there are none.
func Overlaps(holds []Hold) []string {
	return pairs(holds, func(before, h Hold) bool { return before.To > h.From })
}

// Disorder are all pairs of holds of one name, one after the other, of which the later had no larger fence. A pair that overlaps is in
// the order in which some node granted both, which nobody sees from here: it is left to [Overlaps].
func Disorder(holds []Hold) []string {
	return pairs(holds, func(before, h Hold) bool { return before.To <= h.From && before.Fence >= h.Fence })
}

// pairs are those of which bad says so. Each hold is compared with the one on the same name that ended last of those that began
// before it.
func pairs(holds []Hold, bad func(before, h Hold) bool) []string {
	var found []string
	latest := make(map[string]Hold) // by name
	for _, h := range inOrder(holds) {
		if h.Over() {
			continue
		}
		for _, name := range h.Names {
			before, there := latest[name]
			if there && bad(before, h) {
				found = append(found, fmt.Sprintf("%v; %v", before, h))
			}
			if h.To > before.To {
				latest[name] = h
			}
		}
	}
	return found
}

// LongestGap is the longest time between the beginning of the first hold and the end of the last in which nobody held anything.
func LongestGap(holds []Hold) (gap time.Duration) {
	var last time.Duration
	for _, h := range inOrder(holds) {
		if h.Over() {
			continue
		}
		if last > 0 {
			gap = max(gap, h.From-last)
		}
		last = max(last, h.To)
	}
	return gap
}

func inOrder(holds []Hold) []Hold {
	byStart := slices.Clone(holds)
	slices.SortFunc(byStart, func(a, b Hold) int { return int(a.From - b.From) })
	return byStart
}
