package quorum

const (
	most  = 1<<63 - 1
	least = -1 << 63
)

// Drift is the allowance by which a lease ends before its TTL, for clocks that run at different rates and for their
// steps together (docs/dev/hazards.md H64). The zero value is no allowance.
type Drift struct {
	Factor float64 // fraction of the TTL, 0.01 for 1 %; negative counts as 0
	Floor  int64   // nanoseconds, added to it; negative counts as 0
}

// DefaultDrift returns 1 % and 2 ms, as the Redis documentation proposes for Redlock.
func DefaultDrift() Drift { return Drift{Factor: 0.01, Floor: 2_000_000} }

// Of returns the allowance for a TTL in nanoseconds, rounded up. It is never negative, and
// saturates at the largest int64. That is also the result for a factor that is not a number, so
// that a broken setting ends leases early.
func (d Drift) Of(ttl int64) int64 {
	return add(ceil(max(d.Factor, 0)*float64(max(ttl, 0))), max(d.Floor, 0))
}

// Lateness returns the margin by which a lease ends before drift alone would end it. Timers fire
// late, and the margin lets Done close before another client may hold the lock. It is 5 ms, or a
// twentieth of a TTL that is shorter than 100 ms. The TTL is in nanoseconds. The result is never
// negative.
func Lateness(ttl int64) int64 {
	const longest, share = 5_000_000, 20
	return min(max(ttl, 0)/share, longest)
}

// Until returns the instant at which a lease ends: start + ttl - drift - lateness. start must be
// read before the first byte of the request is sent (docs/dev/hazards.md H5). Every end of a lease is
// computed here. On overflow the result saturates, and is never later than the exact one.
func Until[I, D ~int64](start I, ttl D, drift Drift) I {
	// In this order start+ttl can only saturate at an earlier instant.
	return I(add(add(add(int64(start), int64(ttl)), -drift.Of(int64(ttl))), -Lateness(int64(ttl))))
}

// Supported returns the instant until which need nodes hold their copies. That is the need-th
// largest of untils, which has one instant for each node with a copy. ok is false if there are
// fewer, or if need is less than 1. Supported does not modify untils.
func Supported[I ~int64](untils []I, need int) (until I, ok bool) {
	if need < 1 {
		return 0, false
	}
	// This costs n² comparisons but no copy, and n is small.
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

// ceil rounds up to a whole number. NaN fails the comparison, so the result is the largest int64.
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

// add returns the saturated sum. A sum overflows exactly if both terms have the same sign and the
// wrapped sum has the other one.
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
