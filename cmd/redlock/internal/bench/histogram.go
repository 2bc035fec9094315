package bench

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are at most 3 % wide. Its size is fixed. The zero
// value is empty.
type histogram struct {
	counts      [bucketCount]int
	n           int
	sum         time.Duration
	least, most time.Duration
}

const (
	// Each power of two of nanoseconds has this many buckets.
	perOctave   = 1 << octaveBits
	octaveBits  = 5
	bucketCount = (64 - octaveBits) * perOctave
)

// bucketOf returns the bucket of a duration. Buckets are linear below perOctave nanoseconds, and
// logarithmic above.
func bucketOf(d time.Duration) int {
	ns := uint64(max(d, 0))
	shift := max(0, bits.Len64(ns)-octaveBits-1)
	return shift*perOctave + int(ns>>shift)
}

// lowest returns the smallest duration of a bucket.
func lowest(bucket int) time.Duration {
	if bucket < 2*perOctave {
		return time.Duration(bucket)
	}
	shift := bucket/perOctave - 1
	return time.Duration(bucket-shift*perOctave) << shift
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucketOf(d)]++
	if h.n == 0 || d < h.least {
		h.least = d
	}
	h.n, h.sum, h.most = h.n+1, h.sum+d, max(h.most, d)
}

func (h *histogram) merge(other *histogram) {
	if other.n == 0 {
		return
	}
	if h.n == 0 || other.least < h.least {
		h.least = other.least
	}
	h.n, h.sum, h.most = h.n+other.n, h.sum+other.sum, max(h.most, other.most)
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// quantile returns the duration that a share of all did not exceed, to within a bucket.
func (h *histogram) quantile(share float64) time.Duration {
	seen := 0
	for i, n := range h.counts {
		if seen += n; n > 0 && float64(seen) >= share*float64(h.n) {
			return min(max(lowest(i), h.least), h.most)
		}
	}
	return h.most
}

func (h *histogram) mean() time.Duration { return h.sum / time.Duration(max(1, h.n)) }

// bar is the number of durations within a range.
type bar struct {
	below time.Duration
	n     int
}

// bars returns ranges that end at 1, 2 and 5 times powers of ten, from the first to the last that
// is not empty.
func (h *histogram) bars() (all []bar) {
	ends := roundNumbers()
	for i, n := range h.counts {
		for lowest(i) >= ends[0] {
			if ends = ends[1:]; len(all) > 0 {
				all = append(all, bar{below: ends[0]})
			}
		}
		switch {
		case n == 0:
		case len(all) == 0:
			all = append(all, bar{below: ends[0], n: n})
		default:
			all[len(all)-1].n += n
		}
	}
	for len(all) > 0 && all[len(all)-1].n == 0 {
		all = all[:len(all)-1]
	}
	return all
}

// roundNumbers returns these ends, up to more than any bucket.
func roundNumbers() (all []time.Duration) {
	for d := time.Duration(10); d < 1<<59; d *= 10 {
		all = append(all, d, 2*d, 5*d)
	}
	return append(all, 1<<63-1)
}
