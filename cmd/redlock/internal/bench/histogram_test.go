package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestABucketIsAtMostThreePercentWide(t *testing.T) {
	t.Parallel()
	last := -1
	for d := time.Duration(0); d < 1<<61; d += max(1, d/97) {
		i := bucketOf(d)
		require.GreaterOrEqual(t, i, last)
		require.LessOrEqual(t, lowest(i), d)
		require.Greater(t, lowest(i+1), d)
		require.LessOrEqual(t, float64(lowest(i+1)-lowest(i)), max(1, 0.032*float64(d)), d)
		last = i
	}
	require.Less(t, bucketOf(1<<63-1), bucketCount)
	require.Zero(t, bucketOf(-1))
}

func TestQuantilesOfAHistogramAreThoseOfTheSortedList(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	var parts [3]histogram
	for range 10_000 {
		d := time.Duration(r.ExpFloat64() * float64(time.Millisecond))
		all = append(all, d)
		parts[r.IntN(len(parts))].add(d)
	}
	slices.Sort(all)
	var h, empty histogram
	for i := range parts {
		h.merge(&parts[i])
		h.merge(&empty)
	}
	require.Equal(t, len(all), h.n)
	require.Equal(t, all[0], h.least)
	require.Equal(t, all[len(all)-1], h.most)
	for _, share := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
		want := all[int(share*float64(len(all)))-1]
		require.InEpsilon(t, want, h.quantile(share), 0.035, share)
	}
	require.Equal(t, h.most, max(h.quantile(1), h.most))
	require.InEpsilon(t, time.Millisecond, h.mean(), 0.05)
	require.Zero(t, empty.quantile(0.5))
	require.Zero(t, empty.mean())
	require.Empty(t, empty.bars())
}

func TestBarsEndAtRoundNumbersAndCountEverything(t *testing.T) {
	t.Parallel()
	var h histogram
	for _, us := range []int{90, 120, 150, 199, 1900, 1900, 60_000} {
		h.add(time.Duration(us) * time.Microsecond)
	}
	us := func(n int) time.Duration { return time.Duration(n) * time.Microsecond }
	require.Equal(t, []bar{
		{us(100), 1},
		{us(200), 3},
		{us(500), 0},
		{us(1000), 0},
		{us(2000), 2},
		{us(5000), 0},
		{us(10_000), 0},
		{us(20_000), 0},
		{us(50_000), 0},
		{us(100_000), 1},
	}, h.bars())
}
