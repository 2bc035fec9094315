package vote_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/vote"
)

// The allocator puts a round into the size class of 512 bytes. The next class has 576. With hundreds of
// locks in flight, larger rounds cost speed (docs/benchmarks.md).
func TestARoundFitsItsSizeClass(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.LessOrEqual(t, unsafe.Sizeof(vote.Round{}), uintptr(512))
	}
}
