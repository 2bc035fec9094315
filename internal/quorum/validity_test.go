package quorum_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/quorum"
)

// instant is the callers' type of an instant.
type instant int64

func TestTheDefaultDriftIsOnePercentAndTwoMilliseconds(t *testing.T) {
	d := quorum.DefaultDrift()
	require.EqualValues(t, 102*time.Millisecond, d.Of(int64(10*time.Second)))
	require.EqualValues(t, 2*time.Millisecond+100*time.Microsecond, d.Of(int64(10*time.Millisecond)))
	require.EqualValues(t, 2*time.Millisecond, d.Of(0))
}

func TestDriftIsRoundedUp(t *testing.T) {
	d := quorum.Drift{Factor: 0.25}
	for ttl, want := range map[int64]int64{0: 0, 1: 1, 3: 1, 4: 1, 5: 2, 7: 2, 8: 2, 9: 3} {
		require.Equal(t, want, d.Of(ttl), "ttl %d", ttl)
	}
}

func TestDriftIsNeverNegativeAndNeverWraps(t *testing.T) {
	const ttl = int64(time.Second)
	require.Zero(t, quorum.Drift{}.Of(ttl))
	require.Zero(t, quorum.Drift{Factor: -1, Floor: -1}.Of(ttl))
	require.Zero(t, quorum.Drift{Factor: 1}.Of(-ttl))
	require.EqualValues(t, 5, quorum.Drift{Factor: 1, Floor: 5}.Of(math.MinInt64))
	for _, factor := range []float64{1e300, math.Inf(1), math.NaN()} {
		require.Equal(t, int64(math.MaxInt64), quorum.Drift{Factor: factor}.Of(ttl), "factor %v", factor)
	}
	require.Equal(t, int64(math.MaxInt64), quorum.Drift{Factor: 1, Floor: math.MaxInt64}.Of(ttl))
	require.Equal(t, int64(math.MaxInt64), quorum.Drift{Factor: 1}.Of(math.MaxInt64))
}

func TestLatenessIsFiveMillisecondsAndATwentiethOfAShortTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		24 * time.Hour: 5 * time.Millisecond, 100 * time.Millisecond: 5 * time.Millisecond,
		99 * time.Millisecond: 4950 * time.Microsecond, 10 * time.Millisecond: 500 * time.Microsecond, 0: 0, -time.Hour: 0,
	} {
		require.EqualValues(t, want, quorum.Lateness(int64(ttl)), "TTL %v", ttl)
	}
}

func TestALeaseIsCountedFromItsStartLessTheMargins(t *testing.T) {
	start := instant(1_000_000_000)
	until := quorum.Until(start, 10*time.Second, quorum.DefaultDrift())
	require.Equal(t, start+instant(9_893*time.Millisecond), until)
	require.Equal(t, start+instant(995*time.Millisecond), quorum.Until(start, time.Second, quorum.Drift{}))
	short := quorum.Until(start, 10*time.Millisecond, quorum.DefaultDrift())
	require.Equal(t, start+instant(7400*time.Microsecond), short)
}

func TestALeaseShorterThanItsDriftEndsBeforeItsStart(t *testing.T) {
	start := instant(time.Hour)
	require.Less(t, quorum.Until(start, 2*time.Millisecond, quorum.DefaultDrift()), start)
}

// requireUntil compares with arithmetic of unlimited range: exact where the true instant and the
// sum are in range, never later than it elsewhere.
func requireUntil(t *testing.T, start, ttl int64, drift quorum.Drift) {
	t.Helper()
	got := big.NewInt(int64(quorum.Until(instant(start), time.Duration(ttl), drift)))
	sum := new(big.Int).Add(big.NewInt(start), big.NewInt(ttl))
	want := new(big.Int).Sub(sum, big.NewInt(drift.Of(ttl)))
	want.Sub(want, big.NewInt(quorum.Lateness(ttl)))
	if sum.IsInt64() && want.IsInt64() {
		require.Zero(t, want.Cmp(got), "want %v, got %v", want, got)
		return
	}
	if want.Cmp(big.NewInt(math.MinInt64)) < 0 {
		want.SetInt64(math.MinInt64)
	}
	require.LessOrEqual(t, got.Cmp(want), 0, "later than the true end")
}

func FuzzUntil(f *testing.F) {
	f.Add(int64(0), int64(time.Second), 0.01, int64(2*time.Millisecond))
	f.Add(int64(math.MaxInt64), int64(1), 0.0, int64(0))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), 0.5, int64(math.MaxInt64))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), 0.01, int64(math.MaxInt64))
	f.Add(int64(-5), int64(10), math.Inf(1), int64(-1))
	f.Add(int64(1), int64(math.MaxInt64), math.NaN(), int64(0))
	f.Fuzz(func(t *testing.T, start, ttl int64, factor float64, floor int64) {
		drift := quorum.Drift{Factor: factor, Floor: floor}
		of := drift.Of(ttl)
		require.GreaterOrEqual(t, of, max(floor, 0))
		if ttl > 0 && factor > 0 && of < math.MaxInt64 {
			// The exact product of the two numbers, but for float64's rounding.
			require.GreaterOrEqual(t, float64(of), factor*float64(ttl))
		}
		requireUntil(t, start, ttl, drift)
	})
}

func TestUntilIsExactForEveryLeaseAndEarlyBeyondTheRange(t *testing.T) {
	property := func(start, ttl int64, factor float64, floor int64) bool {
		requireUntil(t, start, ttl, quorum.Drift{Factor: factor, Floor: floor})
		requireUntil(t, start>>2, ttl>>20, quorum.Drift{Factor: math.Mod(factor, 1), Floor: floor >> 30})
		return true
	}
	require.NoError(t, quick.Check(property, nil))
}

func TestALongerLeaseNeverEndsEarlier(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		ttl := time.Duration(r.Int64N(int64(24 * time.Hour)))
		more := ttl + time.Duration(r.Int64N(int64(time.Second)))
		d := quorum.DefaultDrift()
		require.GreaterOrEqual(t, quorum.Until[instant](0, more, d), quorum.Until[instant](0, ttl, d)-1)
	}
}

func TestSupportedIsTheLastInstantThatEnoughNodesReach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 10_000 {
		untils := make([]instant, r.IntN(10))
		for i := range untils {
			untils[i] = instant(r.IntN(12) - 6) // often the same
		}
		given, sorted := slices.Clone(untils), slices.Sorted(slices.Values(untils))
		for need := 1; need <= 10; need++ {
			got, ok := quorum.Supported(untils, need)
			require.Equal(t, need <= len(untils), ok)
			if ok {
				require.Equal(t, sorted[len(sorted)-need], got)
			}
		}
		require.Equal(t, given, untils, "left as it was")
	}
}

func TestSupportedOfTheLeastInstantIsFound(t *testing.T) {
	got, ok := quorum.Supported([]instant{math.MinInt64, math.MinInt64}, 2)
	require.True(t, ok)
	require.Equal(t, instant(math.MinInt64), got)
}

func TestNoInstantsSupportNothing(t *testing.T) {
	for _, need := range []int{0, -1, math.MinInt} {
		_, ok := quorum.Supported([]instant{1, 2, 3}, need)
		require.False(t, ok)
	}
}

func TestSupportedAllocatesNothing(t *testing.T) {
	untils := []instant{3, 1, 2, 5, 4}
	require.Zero(t, testing.AllocsPerRun(100, func() { quorum.Supported(untils, 3) }))
}

func BenchmarkTally(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		tally := quorum.NewTally(5)
		tally.Grant()
		tally.Grant()
		tally.Grant()
	}
}
