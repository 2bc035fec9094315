package quorum

const (
	most  = 1<<63 - 1
	least = -1 << 63
)

// Drift is the margin by which a lease ends before its TTL, for clocks that
// run at different rates (docs/hazards.md H64). The zero value is no margin at all.
type Drift struct {
	Factor float64 // part of the TTL, 0.01 for 1 %; negative counts as 0
	Floor  int64   // nanoseconds added to it; negative counts as 0
}

// DefaultDrift returns 1 % and 2 ms, the margin that the Redis documentation
// proposes for Redlock.
func DefaultDrift() Drift { return Drift{Factor: 0.01, Floor: 2_000_000} }

// Of returns the margin for a TTL in nanoseconds, rounded up: never negative,
// and the largest number where it would be more. A factor that is not a number
// gives that too, so that a broken setting ends leases and does not make them.
func (d Drift) Of(ttl int64) int64 {
	return add(ceil(max(d.Factor, 0)*float64(max(ttl, 0))), max(d.Floor, 0))
}

// Lateness returns the margin by which a lease ends before drift alone would end it. Timers
// fire late: the margin lets Done close before another client may hold the lock. It is 5 ms,
// or a twentieth of a TTL in nanoseconds that is shorter than 100 ms, and never negative.
func Lateness(ttl int64) int64 {
	const longest, share = 5_000_000, 20
	return min(max(ttl, 0)/share, longest)
}

// Until returns the instant at which a lease ends: start + ttl - drift - lateness, where
// start was read before the first byte of the request was sent (docs/hazards.md
// H5). It is the only place where a lease's end is made. Where the range ends
// it saturates, never at a later instant than the true one within the range.
func Until[I, D ~int64](start I, ttl D, drift Drift) I {
	// In this order: start+ttl can then only be cut on the early side.
	return I(add(add(add(int64(start), int64(ttl)), -drift.Of(int64(ttl))), -Lateness(int64(ttl))))
}

// Supported returns the instant until which need nodes hold their copies: the
// need-th largest of untils, one for each node that holds one. It is false
// when there are fewer, or need is less than 1. The slice is left as it was.
func Supported[I ~int64](untils []I, need int) (until I, ok bool) {
	if need < 1 {
		return 0, false
	}
	// Counting for each costs n² comparisons and no copy; n is a few nodes.
	for _, u := range untils {
		if (!ok || u > until) && atLeast(untils, u) >= need {
			until, ok = u, true
		}
	}
	return until, ok
}

// atLeast counts the instants that are not before u.
func atLeast[I ~int64](untils []I, u I) (n int) {
	for _, v := range untils {
		if v >= u {
			n++
		}
	}
	return n
}

// ceil rounds up to a whole number. Not a number fails the comparison too.
func ceil(f float64) int64 {
	if !(f < most) {
		return most
	}
	n := int64(f)
	if float64(n) < f {
		n++
	}
	return n
}

// add saturates: a sum overflows exactly when both terms have the sign that
// the wrapped sum has not.
func add(a, b int64) int64 {
	s := a + b
	switch {
	case a > 0 && b > 0 && s < 0:
		return most
	case a < 0 && b < 0 && s >= 0:
		return least
	}
	return s
}
