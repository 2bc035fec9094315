package clock_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// corners are where sums wrap round, and their neighbours.
var corners = []int64{
	math.MinInt64, math.MinInt64 + 1, math.MinInt64 / 2, -2, -1, 0, 1, 2,
	int64(time.Hour), math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64,
}

// saturated returns the number of 64 bits that is nearest to z.
func saturated(z *big.Int) int64 {
	switch {
	case z.IsInt64():
		return z.Int64()
	case z.Sign() < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

func TestAddAndSubSaturateInsteadOfWrapping(t *testing.T) {
	for _, a := range corners {
		for _, b := range corners {
			sum := saturated(new(big.Int).Add(big.NewInt(a), big.NewInt(b)))
			require.Equal(t, clock.Instant(sum), clock.Instant(a).Add(time.Duration(b)), "%d + %d", a, b)
			diff := saturated(new(big.Int).Sub(big.NewInt(a), big.NewInt(b)))
			require.Equal(t, time.Duration(diff), clock.Instant(a).Sub(clock.Instant(b)), "%d - %d", a, b)
		}
	}
}

func TestBeforeAndAfterAreStrict(t *testing.T) {
	i := clock.Instant(5)
	require.True(t, i.Before(6))
	require.False(t, i.Before(5))
	require.True(t, i.After(4))
	require.False(t, i.After(5))
}
