//go:build unix

package contenders

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Hold is the time in which a contender could rely on a lock: from the return of Acquire to the
// call of Release or the end of the validity. Both are readings of [Uptime].
type Hold struct {
	Contender string
	Names     []string
	From, To  time.Duration
	Fence     int64 // 0 without fencing
	Lost      bool  // the holder was told that the lock was lost
}

func (h Hold) String() string {
	return fmt.Sprintf("%s held %v from %v to %v (fence %d)", h.Contender, h.Names, h.From, h.To, h.Fence)
}

// Over reports whether the hold was over when Acquire returned it.
func (h Hold) Over() bool { return h.To <= h.From }

// Uptime reads a clock that all processes of the machine share, and that cannot be set.
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// Overlaps returns all pairs of holds that had a name in common at the same time. Locks exclude
// each other if there are no such pairs.
func Overlaps(holds []Hold) []string {
	return pairs(holds, func(before, h Hold) bool { return before.To > h.From })
}

// Disorder returns all pairs of successive holds of one name of which the later one has no larger
// fence. It ignores pairs that overlap, which [Overlaps] reports: their fences are in the order in
// which some node granted both, and that order cannot be observed here.
func Disorder(holds []Hold) []string {
	return pairs(holds, func(before, h Hold) bool { return before.To <= h.From && before.Fence >= h.Fence })
}

// pairs returns the pairs for which bad returns true. It compares each hold with one other hold on
// the same name: of those that began before it, the one that ended last.
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

// LongestGap returns the longest time without a hold between the beginning of the first hold and
// the end of the last.
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
