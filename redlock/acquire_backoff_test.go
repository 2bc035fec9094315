package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/rules.md rule 22: while votes are split at round trips of 5 ms, the first pause is 5 to
// 10 ms. No pause is longer than the bound.
func TestPausesBeginAtARoundTrip(t *testing.T) {
	t.Parallel()
	for range 4 {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2) // the first one is watched
			// A contender may keep its votes for this long.
			l := fl.locker(withBackoff(time.Millisecond, 40*time.Millisecond), WithNodeTimeout(10*time.Second))
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
			fl.answered()
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
