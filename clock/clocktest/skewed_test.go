package clocktest_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// skewed runs test in a bubble with a skewed clock and its base.
func skewed(t *testing.T, test func(t *testing.T, s *clocktest.Skewed, base clock.Clock)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		base := clock.Runtime()
		test(t, clocktest.NewSkewed(base), base)
	})
}

// elapse lets d of a bubble's virtual time pass, and runs what is due.
func elapse(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// rings sets a timer. The returned function reports when the timer fired, by base, or -1 while it
// has not.
func rings(s, base clock.Clock, d time.Duration) func() time.Duration {
	var mu sync.Mutex
	at := time.Duration(-1)
	s.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		at = time.Duration(base.Now())
	})
	return func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

func TestASkewedClockFollowsItsBaseUntilItIsSet(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		rang := rings(s, base, time.Second)
		elapse(1000 * time.Hour)
		require.Equal(t, clock.Instant(1000*time.Hour), s.Now())
		require.Equal(t, time.Second, rang())
	})
}

func TestARateAppliesToNowAndToTimersAlreadySet(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		rang := rings(s, base, 10*time.Second)
		elapse(4 * time.Second) // 6 s to go
		s.SetRate(2)
		late := rings(s, base, 10*time.Second)
		elapse(10 * time.Second)
		require.Equal(t, clock.Instant(24*time.Second), s.Now())
		require.Equal(t, 7*time.Second, rang())
		require.Equal(t, 9*time.Second, late())
	})
}

func TestATimerOfAnOddRateFiresWhenTheClockShowsItsTime(t *testing.T) {
	for _, rate := range []float64{0.99, 1.02, 1.0 / 3, 3, 0.98, 7.7} {
		skewed(t, func(t *testing.T, s *clocktest.Skewed, _ clock.Clock) {
			s.SetRate(rate)
			for d := time.Duration(1); d < time.Hour; d = d*3 + 1 {
				due := s.Now().Add(d)
				fired, _ := timer.After(s, d)
				<-fired
				require.False(t, s.Now().Before(due))
				require.LessOrEqual(t, s.Now().Sub(due), time.Duration(rate)+2)
			}
		})
	}
}

func TestAnAdvanceRunsWhatIsDueWithinItNow(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		soon, late := rings(s, base, time.Minute), rings(s, base, time.Hour)
		elapse(time.Second)
		s.Advance(time.Minute)
		elapse(0)
		require.Equal(t, time.Second, soon())
		require.Equal(t, clock.Instant(61*time.Second), s.Now())
		elapse(time.Hour)
		require.Equal(t, time.Hour-time.Minute, late())
		require.Panics(t, func() { s.Advance(-1) })
	})
}

func TestAnAdvanceInAStallIsTimeThatPassed(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		rang := rings(s, base, time.Minute)
		s.Stall()
		s.Advance(time.Minute)
		elapse(time.Second)
		require.Equal(t, clock.Instant(time.Minute), s.Now())
		s.Resume()
		elapse(0)
		require.Equal(t, time.Second, rang())
	})
}

func TestAJumpMovesNowAndNoTimer(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		rang := rings(s, base, time.Minute)
		s.Jump(time.Hour)
		require.Equal(t, clock.Instant(time.Hour), s.Now())
		s.Jump(-2 * time.Hour)
		require.Equal(t, clock.Instant(-time.Hour), s.Now())
		elapse(time.Hour)
		require.Zero(t, s.Now())
		require.Equal(t, time.Minute, rang())
	})
}

func TestASuspendMovesNowAndNoTimer(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		rang := rings(s, base, time.Minute)
		elapse(time.Second)
		s.Suspend(time.Hour)
		require.Equal(t, clock.Instant(time.Hour+time.Second), s.Now())
		elapse(time.Hour)
		require.Equal(t, time.Minute, rang())
	})
}

func TestAStalledClockStopsAndItsTimersWaitForResume(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		before := rings(s, base, time.Minute)
		elapse(20 * time.Second)
		s.Stall()
		s.Stall()
		within := rings(s, base, time.Second)
		elapse(time.Hour)
		require.Equal(t, clock.Instant(20*time.Second), s.Now())
		require.Negative(t, before())
		require.Negative(t, within())

		s.Resume()
		s.Resume()
		elapse(time.Hour)
		require.Equal(t, clock.Instant(time.Hour+20*time.Second), s.Now())
		require.Equal(t, time.Hour+time.Minute, before())
		require.Equal(t, time.Hour+21*time.Second, within())
	})
}

func TestATimerStoppedInAStallNeverFires(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, _ clock.Clock) {
		s.Stall()
		timer := s.AfterFunc(time.Second, func() { t.Error("rang") })
		require.True(t, timer.Stop())
		s.Resume()
		elapse(time.Hour)
	})
}

func TestATimerBeyondTheRangeNeverFires(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, _ clock.Clock) {
		s.SetRate(0.5)
		timer := s.AfterFunc(math.MaxInt64, func() { t.Error("rang") })
		elapse(1000 * time.Hour)
		require.True(t, timer.Stop())
	})
}

func TestATimersFunctionMayUseTheClock(t *testing.T) {
	skewed(t, func(t *testing.T, s *clocktest.Skewed, base clock.Clock) {
		var again func() time.Duration
		s.AfterFunc(time.Second, func() {
			s.Jump(time.Second)
			again = rings(s, base, time.Second)
		})
		elapse(time.Minute)
		require.Equal(t, 2*time.Second, again())
	})
}

func TestASkewedClockRefusesNonsense(t *testing.T) {
	s := clocktest.NewSkewed(clock.Runtime())
	for _, r := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.Panics(t, func() { s.SetRate(r) }, "rate %v", r)
	}
	require.Panics(t, func() { s.Suspend(-1) })
}

// byHand is a clock that does not advance. It has one timer, which the test fires, and counts how
// often that is set.
type byHand struct {
	fire func()
	set  int
}

func (c *byHand) Now() clock.Instant { return 0 }

func (c *byHand) AfterFunc(_ time.Duration, f func()) clock.Timer {
	c.fire = f
	c.set++
	return c
}

func (c *byHand) Stop() bool               { return true }
func (c *byHand) Reset(time.Duration) bool { c.set++; return true }

func TestABaseTimerThatFiresTooSoonOrTooLateRunsNothing(t *testing.T) {
	base := &byHand{}
	s := clocktest.NewSkewed(base)
	timer := s.AfterFunc(time.Second, func() { t.Error("ran") })
	base.fire() // as if the pace was changed too late for the timer
	require.Equal(t, 2, base.set, "set for what is left")
	s.Stall()
	base.fire()
	require.Equal(t, 2, base.set, "until Resume nothing is left to set it for")
	require.True(t, timer.Stop(), "it has waited on")
	base.fire()
	s.Resume()
	require.Equal(t, 2, base.set)
}

func TestASkewedClockIsSafeForConcurrentUse(t *testing.T) {
	skewed(t, func(_ *testing.T, s *clocktest.Skewed, _ clock.Clock) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range 100 {
					tm := s.AfterFunc(time.Duration(i), func() { s.Now() })
					s.SetRate(1 + float64(i%3)/10)
					s.Stall()
					s.Jump(time.Duration(i))
					tm.Reset(time.Duration(i))
					s.Resume()
					timer.After(s, 3)
					if i%2 == 0 {
						tm.Stop()
					}
				}
			})
		}
		all.Wait()
		s.Resume()
		elapse(time.Hour)
	})
}
