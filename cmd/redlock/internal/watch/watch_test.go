package watch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALineIsClippedWithoutCountingColours(t *testing.T) {
	t.Parallel()
	require.Equal(t, "\x1b[1mjob\x1b[0m is", clipped("\x1b[1mjob\x1b[0m is held", 6))
	require.Equal(t, "○ a\x1b[0m", clipped("○ a–\x1b[0m", 3))
	require.Equal(t, "short", clipped("short", 80))
}
