package stats

import (
	"maps"
	"slices"
	"time"
)

// A Distribution is how often each duration was seen, to within 1 %. It marshals to JSON.
type Distribution map[int]int

// Take adds what r has recorded.
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

// Count is how many durations there are.
func (d Distribution) Count() int {
	count := 0
	for _, n := range d {
		count += n
	}
	return count
}

// Quantile is the smallest duration that at least a part q of all do not exceed, q from 0 to 1. It is 0 when there is none.
func (d Distribution) Quantile(q float64) time.Duration {
	return d.Quantiles([]float64{q})[0]
}

// Quantiles are the quantiles of all qs, which must be in order.
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
