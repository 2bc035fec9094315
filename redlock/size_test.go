package redlock

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A lock is allocated in the size class of 640 bytes, of which the allocator uses 8: the next one has
// 704. Whoever holds 100,000 locks pays for each byte (docs/dev/memory.md).
func TestALockFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.LessOrEqual(t, unsafe.Sizeof(Lock{}), uintptr(640-8))
	}
}
