package clock

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestTheSystemClockIsTheBootClockToWithinItsSlack(t *testing.T) {
	require.IsType(t, &bootClock{}, system)
	for range 10_000 {
		before, err := boottime()
		require.NoError(t, err)
		now := int64(System().Now())
		after, err := boottime()
		require.NoError(t, err)
		require.GreaterOrEqual(t, now, before)
		require.LessOrEqual(t, now, after+bootSlack)
	}
}

func TestWithoutABootClockTheWallClockShowsSuspends(t *testing.T) {
	none := func() (int64, error) { return 0, unix.EINVAL }
	require.IsType(t, &wallClock{}, systemBy(none))
}

func BenchmarkAskingTheKernel(b *testing.B) {
	for b.Loop() {
		_, _ = boottime()
	}
}
