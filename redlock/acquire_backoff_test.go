package redlock

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
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
			b := backoff{min: least, max: most}
			from := min(max(least, trip), most/2)
			for n := range 12 {
				d := b.next(trip)
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
		b := backoff{min: c[0], max: c[1]}
		for range 200 {
			d := b.next(time.Duration(3))
			require.GreaterOrEqual(t, d, c[0])
			require.LessOrEqual(t, d, c[1])
		}
	}
}

// docs/dev/rules.md rule 22: while votes are split at round trips of 5 ms, the first pause is 5 to
// 10 ms. No pause is longer than the bound.
func TestPausesBeginAtARoundTrip(t *testing.T) {
	t.Parallel()
	for range 4 {
		inBubble(t, 3, func(fl *testbed) {
			// A contender may keep its votes for this long.
			l := fl.locker(WithBackoff(time.Millisecond, 40*time.Millisecond), WithNodeTimeout(10*time.Second))
			fl.each(func(m *fakeredis.Master) {
				m.SetDelay(5 * time.Millisecond)
				m.Set("a", m.Name(), time.Minute)
			})
			var sets []time.Time
			fl.masters[0].Hook(func(_ int64, cmd string, _ []string) (string, bool) {
				if cmd == "SET" {
					sets = append(sets, time.Now())
				}
				return "", false
			})
			ctx, cancel := context.WithTimeout(bg, 2*time.Second)
			defer cancel()
			_, err := l.Acquire(ctx, "a", time.Minute)
			require.ErrorIs(t, err, ErrHeld)
			synctest.Wait()
			const trip = 5 * time.Millisecond
			for i, at := range sets[1:] {
				gap := at.Sub(sets[i]) - 2*trip // the attempt, and the query for the holder
				require.GreaterOrEqual(t, gap, trip)
				require.LessOrEqual(t, gap, min(trip+trip<<min(i, 9), 40*time.Millisecond))
			}
			require.Greater(t, len(sets), 30)
		})
	}
}
