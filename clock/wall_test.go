package clock

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// elapsedSince returns c's elapsed time since start, less the time that the readings took.
func elapsedSince(c Clock, start Instant) time.Duration {
	return c.Now().Sub(start).Truncate(time.Millisecond)
}

func TestTheWallClockCountsASuspendAndAForwardStep(t *testing.T) {
	m := &machine{}
	c := newWallClock(m.read)
	start := c.Now()
	m.slept += hour
	require.Equal(t, time.Hour, elapsedSince(c, start))
	m.set += hour
	require.Equal(t, 2*time.Hour, elapsedSince(c, start))
	m.elapsed += hour
	require.Equal(t, 3*time.Hour, elapsedSince(c, start))
}

func TestAWallClockSetBackStopsNothingAndHidesNothing(t *testing.T) {
	m := &machine{}
	c := newWallClock(m.read)
	start := c.Now()
	m.set += hour
	require.Equal(t, time.Hour, elapsedSince(c, start))
	m.set -= hour
	require.Equal(t, time.Hour, elapsedSince(c, start))
	m.elapsed += int64(time.Minute)
	require.Equal(t, time.Hour+time.Minute, elapsedSince(c, start), "it runs on")
	m.slept += int64(time.Minute)
	require.Equal(t, time.Hour+2*time.Minute, elapsedSince(c, start), "a suspend is still seen")
}

func TestAThreadPreemptedBetweenTheReadingsIsNoSuspend(t *testing.T) {
	m := &machine{}
	c := newWallClock(m.read)
	start := c.Now()
	for range 10 {
		m.between = func() { m.elapsed += 10 * wallSlack }
		c.Now()
	}
	require.Equal(t, time.Duration(100*wallSlack), elapsedSince(c, start))
}

func TestTheWallClockNeverGoesBackAndNeverRunsSlow(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		m := &machine{}
		c := newWallClock(m.read)
		last := c.Now()
		for range 100 {
			before := m.true()
			d := r.Int64N(1 << r.IntN(50))
			switch r.IntN(3) {
			case 0:
				m.elapsed += d
			case 1:
				m.slept += d + 2*wallSlack
			case 2:
				m.set += d - r.Int64N(1<<50)
				c.Now() // the wall clock is not set at the instant of a suspend
			}
			now := c.Now()
			require.GreaterOrEqual(t, int64(now.Sub(last)), m.true()-before-4*wallSlack, "seed %d", seed)
			require.False(t, now.Before(last), "seed %d", seed)
			last = now
		}
	}
}

func TestTwoThatSeeOneStepCountItOnce(t *testing.T) {
	m := &machine{}
	c := newWallClock(m.read)
	start := c.Now()
	m.slept += hour
	// The reading after the next is that of step, and another reading overtakes it.
	m.between = func() { m.between = func() { require.Equal(t, time.Hour, elapsedSince(c, start)) } }
	require.Equal(t, time.Hour, elapsedSince(c, start))
	require.Equal(t, time.Hour, elapsedSince(c, start))
}

func TestTheWallClocksTimersAreTheRuntimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		start := time.Now()
		newWallClock(hostClocks).AfterFunc(time.Hour, func() { close(done) })
		<-done
		require.Equal(t, time.Hour, time.Since(start))
	})
}
