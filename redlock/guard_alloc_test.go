//go:build !race

package redlock

import "testing"

// The guard costs no allocation.
func TestAcquireAndReleaseUnderTheGuardTakeFewAllocations(t *testing.T) {
	requireAllocations(t, 11, WithRestartGuard(DefaultMaxTTL))
	requireAllocations(t, 14, WithRestartGuard(DefaultMaxTTL), WithFencing(), WithRepair())
}
