package timer_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/timer"
)

func TestAfterASuspendATimerFiresWithinTheSlackOfTheWaking(t *testing.T) {
	for _, awake := range []time.Duration{0, time.Millisecond, 777 * time.Millisecond, time.Minute} {
		t.Run(fmt.Sprintf("awake for %v", awake), func(t *testing.T) {
			bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
				b := &bell{clock: c}
				q.Set(&b.Timer, at(time.Hour), b)
				elapse(awake)
				c.Suspend(2 * time.Hour)
				elapse(timer.Slack)
				require.Len(t, b.times(), 1)
			})
		})
	}
}

func TestATimerSetAfterOneSuspendKeepsItsSlackInTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		slow, quick := &bell{clock: c}, &bell{clock: c}
		q.Set(&slow.Timer, at(time.Hour), slow)
		c.Suspend(90 * time.Millisecond) // by the clock 10 ms to go, by the timer 100 ms
		q.Set(&quick.Timer, at(time.Minute), quick)
		c.Suspend(time.Minute)
		elapse(timer.Slack)
		require.Len(t, quick.times(), 1)
	})
}

func TestASlowOrStalledClockFiresByItsOwnTime(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		b := &bell{clock: c}
		q.Set(&b.Timer, at(time.Minute), b)
		c.SetRate(0.5)
		elapse(time.Minute)
		c.Stall()
		elapse(time.Hour)
		require.Empty(t, b.times())
		c.Resume()
		elapse(time.Minute)
		require.Equal(t, []clock.Instant{at(time.Minute)}, b.times())
	})
}

func TestAClockThatJumpsBackFiresAtTheDeadlineByItsTime(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		b := &bell{clock: c}
		q.Set(&b.Timer, at(time.Second), b)
		c.Jump(-time.Minute)
		elapse(time.Hour)
		require.Equal(t, []clock.Instant{at(time.Second)}, b.times())
	})
}

// counted counts how often a queue touches its timer and reads its clock.
type counted struct {
	clock.Clock
	armed, fired, read atomic.Int64
}

func (c *counted) Now() clock.Instant {
	c.read.Add(1)
	return c.Clock.Now()
}

func (c *counted) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.armed.Add(1)
	return countedTimer{c.Clock.AfterFunc(d, func() { c.fired.Add(1); f() }), c}
}

type countedTimer struct {
	clock.Timer
	c *counted
}

func (t countedTimer) Reset(d time.Duration) bool {
	t.c.armed.Add(1)
	return t.Timer.Reset(d)
}

func TestAnArmedTimerIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Clock: clock.Runtime()}
		q := timer.New(c)
		b := &bell{clock: c.Clock}
		for i := range 1000 {
			q.Set(&b.Timer, at(time.Minute+time.Duration(i)), b)
			q.Clear(&b.Timer)
		}
		require.EqualValues(t, 1, c.armed.Load())
		require.EqualValues(t, 1, c.read.Load())

		elapse(time.Hour)
		require.EqualValues(t, 1, c.fired.Load(), "found nothing and stayed unarmed")
		require.EqualValues(t, 1, c.armed.Load())
	})
}

func TestAFireThatSetsTimersLeavesTheTimerToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Clock: clock.Runtime()}
		q := timer.New(c)
		var first, next timer.Timer
		q.Set(&first, at(0), ringer(func() {
			before := c.armed.Load()
			for i := range time.Duration(10) {
				q.Set(&next, at(time.Minute-i), ringer(func() {}))
			}
			require.Equal(t, before, c.armed.Load())
		}))
		synctest.Wait()
		require.EqualValues(t, 2, c.armed.Load(), "once for each")
	})
}

func TestTheClocksTimerFiresNoOftenerThanTheSlack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{Clock: clock.Runtime()}
		q := timer.New(c)
		long, short := &bell{clock: c.Clock}, &bell{clock: c.Clock}
		q.Set(&long.Timer, at(time.Hour), long)
		q.Set(&short.Timer, at(time.Minute), short)
		elapse(time.Minute)
		require.InDelta(t, time.Minute/timer.Slack, c.fired.Load(), 1)
		require.Len(t, short.times(), 1)
	})
}

// byHand is a clock with one timer, which the test fires.
type byHand struct {
	clock.Clock
	fire func()
}

func (c *byHand) AfterFunc(_ time.Duration, f func()) clock.Timer {
	c.fire = f
	return time.NewTimer(time.Hour)
}

func TestAFiringThatComesWhileAnotherFiresLeavesItToThatOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &byHand{Clock: clock.Runtime()}
		q := timer.New(c)
		var first, second timer.Timer
		var rung int
		q.Set(&second, at(0), ringer(func() { rung++ }))
		q.Set(&first, at(-1), ringer(func() {
			c.fire()
			require.Zero(t, rung)
		}))
		c.fire()
		require.Equal(t, 1, rung)
		c.fire()
		require.Equal(t, 1, rung)
	})
}
