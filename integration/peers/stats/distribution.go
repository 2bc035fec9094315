package stats

import (
	"maps"
	"slices"
	"time"
)

// A Distribution counts how often each duration was seen, to within 1 %. It can be marshalled to JSON.
type Distribution map[int]int

// Take adds all that r has recorded.
func (d Distribution) Take(r *Recorder) {
	for slot, n := range r {
		if n > 0 {
			d[slot] += int(n)
		}
	}
}

// Add records one duration.
func (d Distribution) Add(one time.Duration) { d[slotOf(one)]++ }

// Merge adds all of other.
func (d Distribution) Merge(other Distribution) {
	for slot, n := range other {
		d[slot] += n
	}
}

// Count returns the number of durations.
func (d Distribution) Count() int {
	count := 0
	for _, n := range d {
		count += n
	}
	return count
}

// Quantile returns the smallest duration that at least the part q of all durations do not exceed. q
// is between 0 and 1. Quantile returns 0 if d is empty.
func (d Distribution) Quantile(q float64) time.Duration {
	return d.Quantiles([]float64{q})[0]
}

// Quantiles returns the quantiles of all qs, which must be sorted.
func (d Distribution) Quantiles(qs []float64) []time.Duration {
	count, seen, last := d.Count(), 0, time.Duration(0)
	found := make([]time.Duration, 0, len(qs))
	for _, slot := range slices.Sorted(maps.Keys(d)) {
		last = middle(slot)
		seen += d[slot]
		for len(found) < len(qs) && float64(seen) >= qs[len(found)]*float64(count) {
			found = append(found, last)
		}
	}
	for len(found) < len(qs) {
		found = append(found, last)
	}
	return found
}
