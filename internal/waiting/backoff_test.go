package waiting

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// docs/dev/rules.md rule 22: the pause starts at one round trip, doubles and has jitter over its
// whole growth. It stays within its bounds for every round trip.
func TestTheBackoffStaysWithinItsBoundsAndHasJitter(t *testing.T) {
	const least, most = time.Millisecond, 100 * time.Millisecond
	for _, trip := range []time.Duration{0, time.Microsecond, 5 * time.Millisecond, 60 * time.Millisecond, time.Second} {
		first := map[time.Duration]bool{}
		late := map[time.Duration]bool{}
		var sum time.Duration
		for range 200 {
			b := Backoff{Min: least, Max: most}
			from := min(max(least, trip), most/2)
			for n := range 12 {
				d := b.Next(trip)
				require.GreaterOrEqual(t, d, from, "trip %v, pause %d", trip, n)
				require.LessOrEqual(t, d, most, "trip %v, pause %d", trip, n)
				require.LessOrEqual(t, d, from+from<<n, "trip %v, pause %d", trip, n)
				if n == 0 {
					first[d] = true
				}
				if n == 11 {
					late[d] = true
					sum += d
				}
			}
		}
		// Contenders that split the votes must diverge on the first pause and on later ones.
		require.Greater(t, len(first), 190, "trip %v", trip)
		require.Greater(t, len(late), 190, "trip %v", trip)
		require.InDelta(t, float64(from(least, trip, most)+most)/2, float64(sum/200), float64(most/10), "trip %v", trip)
	}
}

func from(least, trip, most time.Duration) time.Duration { return min(max(least, trip), most/2) }

// Bounds that leave no room are kept as well, and the widest bounds cause no overflow.
func TestTheBackoffKeepsToOddBounds(t *testing.T) {
	for _, c := range [][2]time.Duration{{1, 1}, {time.Second, time.Second}, {1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {90, 100}} {
		b := Backoff{Min: c[0], Max: c[1]}
		for range 200 {
			d := b.Next(time.Duration(3))
			require.GreaterOrEqual(t, d, c[0])
			require.LessOrEqual(t, d, c[1])
		}
	}
}
