package stats

import (
	"cmp"
	"slices"
)

// Median returns the middle one of values, or the mean of the two in the middle. It returns 0 if
// there are no values.
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

// Mean returns the mean of two numbers, for [Median].
func Mean[T ~int64 | ~float64](a, b T) T { return a + (b-a)/2 }

// Jain returns Jain's fairness index of the shares: 1 if they are equal, 1/n if one of n has
// everything, and 0 if all shares are 0.
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
