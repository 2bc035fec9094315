package clock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
)

func TestTheRuntimeClockShowsVirtualTimeSinceItsMaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elapse(time.Second)
		c := clock.Runtime()
		require.Zero(t, c.Now())
		elapse(time.Hour)
		require.Equal(t, clock.Instant(time.Hour), c.Now())
	})
}

func TestTimersStopAndReset(t *testing.T) {
	for name, newClock := range map[string]func() clock.Clock{
		"runtime": clock.Runtime,
		"system":  clock.System,
		"skewed":  func() clock.Clock { return clocktest.NewSkewed(clock.Runtime()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran atomic.Int32
				timer := newClock().AfterFunc(time.Second, func() { ran.Add(1) })
				elapse(time.Second - 1)
				require.Zero(t, ran.Load())
				elapse(1)
				require.EqualValues(t, 1, ran.Load())
				require.False(t, timer.Stop(), "it has run")

				require.False(t, timer.Reset(time.Second), "it was not waiting")
				require.True(t, timer.Reset(2*time.Second), "it was waiting")
				elapse(time.Second)
				require.EqualValues(t, 1, ran.Load())
				require.True(t, timer.Stop())
				require.False(t, timer.Stop())
				elapse(time.Hour)
				require.EqualValues(t, 1, ran.Load())
			})
		})
	}
}

func TestTheSystemClockIsOneAndNeverGoesBack(t *testing.T) {
	require.Same(t, clock.System(), clock.System())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			last := clock.System().Now()
			for range 100_000 {
				now := clock.System().Now()
				if now.Before(last) {
					t.Errorf("went back by %v", last.Sub(now))
				}
				last = now
			}
		})
	}
	all.Wait()
	start, wall := clock.System().Now(), time.Now()
	for time.Since(wall) < time.Millisecond {
		continue
	}
	require.GreaterOrEqual(t, clock.System().Now().Sub(start), time.Millisecond-10*time.Microsecond)
}

func TestReadingAClockAllocatesNothing(t *testing.T) {
	for _, c := range []clock.Clock{clock.System(), clock.Runtime()} {
		require.Zero(t, testing.AllocsPerRun(1000, func() { c.Now() }))
	}
}

// elapse lets d of a bubble's virtual time pass, and runs what is due.
func elapse(d time.Duration) {
	done := make(chan struct{})
	time.AfterFunc(d, func() { close(done) })
	<-done
	synctest.Wait()
}

func BenchmarkSystemNow(b *testing.B)  { benchmarkNow(b, clock.System()) }
func BenchmarkRuntimeNow(b *testing.B) { benchmarkNow(b, clock.Runtime()) }

func benchmarkNow(b *testing.B, c clock.Clock) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}
