package transport

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// A peer has all of the hard timeout to reply, and at most a quarter more, whenever the call is sent.
func TestAReplyIsAwaitedForTheHardTimeout(t *testing.T) {
	const hard, check = time.Second, time.Second / checksPerTimeout
	for _, sent := range []time.Duration{0, check / 2, check - 1, check, check + 1, 2 * hard} {
		synctest.Test(t, func(t *testing.T) {
			c := newConn(&Settings{Clock: clock.Runtime(), HardTimeout: hard}, closes{n: new(int)})
			defer c.Close()
			c.Start()
			time.Sleep(sent)
			c.calls++
			c.expect(c.calls)
			began := time.Now()
			<-c.Dead()
			require.ErrorIs(t, c.Err(), ErrSilent)
			require.GreaterOrEqual(t, time.Since(began), hard, "sent after %v", sent)
			require.LessOrEqual(t, time.Since(began), hard+check, "sent after %v", sent)
		})
	}
}

// counted is a clock whose timers never fire. It counts how often they are set again.
type counted struct {
	clock.Clock
	clock.Timer
	sets atomic.Int64
}

func (c *counted) AfterFunc(d time.Duration, _ func()) clock.Timer {
	c.Reset(d)
	return c
}

func (c *counted) Reset(time.Duration) bool {
	c.sets.Add(1)
	return false
}

// A call is sent while the watchdog stops. Either the writer or the watchdog sets the timer, and never both: the
// connection would be checked no more, or be ended too early.
func TestACallThatIsSentWhileTheWatchdogStopsIsWatched(t *testing.T) {
	timer := &counted{}
	c := newConn(&Settings{Clock: timer, HardTimeout: time.Second}, closes{n: new(int)})
	c.Start()
	send := func() {
		c.calls++
		c.expect(c.calls)
	}
	send()
	for range 10_000 {
		c.received.Add(1)
		before := timer.sets.Load()
		var both sync.WaitGroup
		both.Go(c.check)
		both.Go(send)
		both.Wait()
		require.Equal(t, before+1, timer.sets.Load())
	}
}
