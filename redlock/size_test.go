package redlock

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The allocator puts a lock into the size class of 576 bytes, and uses 8 of them itself. The next
// class has 640. A process may hold 100,000 locks (docs/dev/memory.md).
func TestALockFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.LessOrEqual(t, unsafe.Sizeof(Lock{}), uintptr(576-8))
	}
}
