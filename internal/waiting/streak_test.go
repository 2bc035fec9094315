package waiting

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// A streak ends after 16 holds, or with the first hold that ends after 50 ms. Waiters elsewhere go
// first then, if any are known.
func TestARowEndsByNumberAndByTime(t *testing.T) {
	p := streak{remoteWaiters: true}
	p.holdBegins(0, time.Millisecond)
	for n := range MaxStreak {
		require.Equal(t, n == MaxStreak-1, p.holdEnds(clock.Instant(n)))
		require.Equal(t, n == MaxStreak-1, p.mustYield)
		p.holdBegins(clock.Instant(n), time.Millisecond)
	}
	p = streak{remoteWaiters: true}
	p.holdBegins(0, time.Millisecond)
	require.False(t, p.holdEnds(clock.Instant(MaxStreakTime-1)))
	p.holdBegins(clock.Instant(MaxStreakTime-1), time.Millisecond)
	require.True(t, p.holdEnds(clock.Instant(MaxStreakTime)))
	require.True(t, p.mustYield)
}

// A refusal ends a streak early, and so does a gap long enough for another process to acquire.
func TestWhatLetsOthersInEndsARow(t *testing.T) {
	var p streak
	p.holdBegins(0, time.Millisecond)
	p.holdEnds(0)
	p.holdBegins(clock.Instant(time.Millisecond-1), time.Millisecond)
	require.EqualValues(t, 1, p.holds)
	p.holdBegins(clock.Instant(time.Millisecond), time.Millisecond)
	require.Zero(t, p.holds)
	p.holdEnds(0)
	p.mustYield, p.emptyYields = true, 2
	p.lostTo(false)
	require.Zero(t, p.holds)
	require.False(t, p.mustYield)
	require.EqualValues(t, 2, p.emptyYields)
	p.lostTo(true)
	require.Zero(t, p.emptyYields)
}

// The time for which a process yields doubles with each yield. The time since the name became free
// is subtracted.
func TestLettingOthersGoFirstTakesLongerEachTime(t *testing.T) {
	p := streak{releasedAt: clock.Instant(time.Second)}
	now := p.releasedAt.Add(time.Millisecond)
	require.Zero(t, p.yieldFor(now, 3*time.Millisecond), "it is not their turn")
	for n := range 2 * maxYieldDoublings {
		p.mustYield = true
		require.Equal(t, 3*time.Millisecond<<min(n, maxYieldDoublings-1)-time.Millisecond, p.yieldFor(now, 3*time.Millisecond))
		require.False(t, p.mustYield)
	}
	p.mustYield, p.emptyYields = true, 0
	require.Zero(t, p.yieldFor(p.releasedAt.Add(time.Second), 3*time.Millisecond))
	require.Zero(t, p.emptyYields)
}
