//go:build !race

package redlock

import "testing"

// The guard costs no allocation.
func TestAcquireAndReleaseUnderTheGuardTakeFewAllocations(t *testing.T) {
	requireAllocations(t, 8, WithRestartGuard(DefaultMaxTTL))
	requireAllocations(t, 12, WithRestartGuard(DefaultMaxTTL), WithFencing(), WithRepair())
}
