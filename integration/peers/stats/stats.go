package stats

import (
	"cmp"
	"slices"
)

// Median is the middle one of values, or the mean of the two in the middle. It is 0 when there is none.
func Median[T cmp.Ordered](values []T, mean func(a, b T) T) (median T) {
	if len(values) == 0 {
		return median
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return mean(sorted[half-1], sorted[half])
}

// Mean is the mean of two numbers, for [Median].
func Mean[T ~int64 | ~float64](a, b T) T { return a + (b-a)/2 }

// Jain is how even the shares of all are: 1 when they are equal, 1/n when one of n has everything. It is 0 when nobody has anything.
func Jain(shares []int) float64 {
	sum, squares := 0.0, 0.0
	for _, n := range shares {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (squares * float64(len(shares)))
}
