package timer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// noted collects the pauses that a queue reports, and what had fired before each.
type noted struct {
	pauses []timer.Pause
	fired  []int
}

// noting collects the pauses of a queue, and sets a timer in an hour.
func noting(q *timer.Queue, c *clocktest.Skewed) (n *noted, far *bell) {
	n, far = &noted{}, &bell{clock: c}
	q.OnPause = func(p timer.Pause) { n.pauses, n.fired = append(n.pauses, p), append(n.fired, len(far.times())) }
	q.Set(&far.Timer, at(time.Hour), far)
	return n, far
}

func TestAQueueReportsThatTheProcessDidNotRun(t *testing.T) {
	for name, pause := range map[string]func(c *clocktest.Skewed, d time.Duration){
		"suspended": (*clocktest.Skewed).Suspend,
		"stopped":   (*clocktest.Skewed).Advance,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
				n, _ := noting(q, c)
				elapse(10 * time.Minute)
				require.Empty(t, n.pauses, "it runs")
				require.Equal(t, timer.Pause{}, q.LastPause())
				pause(c, 7*time.Second)
				elapse(time.Minute)
				require.Len(t, n.pauses, 1, "once")
				p := n.pauses[0]
				require.GreaterOrEqual(t, p.For(), 7*time.Second-timer.Slack)
				require.LessOrEqual(t, p.For(), 7*time.Second)
				require.Equal(t, p, q.LastPause())
			})
		})
	}
}

// Otherwise the log has the effect before the cause.
func TestAPauseIsReportedBeforeWhatItDelayedIsFired(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		n, far := noting(q, c)
		c.Suspend(2 * time.Hour)
		elapse(time.Second)
		require.Len(t, far.times(), 1)
		require.Equal(t, []int{0}, n.fired)
	})
}

// A goroutine may ask, or set a timer, before the clock's timer fires after a pause.
func TestAPauseIsKnownBeforeATimerRuns(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		n, _ := noting(q, c)
		elapse(50 * time.Millisecond)
		c.Suspend(7 * time.Second)
		p := q.LastPause()
		require.Equal(t, 6950*time.Millisecond, p.For(), "the clock's timer was due in 50 ms")
		quick := &bell{clock: c}
		q.Set(&quick.Timer, c.Now().Add(time.Minute), quick) // sets the clock's timer again
		elapse(time.Minute)
		require.Equal(t, []timer.Pause{p}, n.pauses)
	})
}

func TestWhatABusyMachineDelaysIsNoPause(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		n, _ := noting(q, c)
		c.Advance(timer.Slack + timer.MinPause - 1)
		elapse(time.Minute)
		require.Empty(t, n.pauses)
	})
}

func TestNoTimeWithoutATimerIsAPause(t *testing.T) {
	bubble(t, func(t *testing.T, q *timer.Queue, c *clocktest.Skewed) {
		n, far := noting(q, c)
		q.Clear(&far.Timer)
		elapse(2 * time.Second) // the clock's timer fires once in vain
		c.Suspend(time.Hour)
		elapse(time.Minute)
		require.Equal(t, timer.Pause{}, q.LastPause())
		require.Empty(t, n.pauses)
	})
}
