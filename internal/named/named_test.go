package named

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Errors and logs show it.
func TestAnAddressThatAServerNamesIsPrintable(t *testing.T) {
	for _, bad := range []string{"h\x1b[31m", "h\u202e", "h\n", strings.Repeat("z", 600)} {
		_, err := Endpoint(bad, "1")
		require.ErrorIs(t, err, ErrNoAddress)
		_, err = Endpoint("h", bad)
		require.ErrorIs(t, err, ErrNoAddress)
	}
}
