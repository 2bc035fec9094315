package timer

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

func TestAfterClosesItsChannelWhenTheTimeHasPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		start := c.Now()
		fired, stop := After(c, time.Minute)
		<-fired
		require.Equal(t, time.Minute, c.Now().Sub(start))
		stop()
	})
}

func TestAfterNeverClosesItsChannelOnceStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		fired, stop := After(c, time.Minute)
		stop()
		stop()
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case <-fired:
			t.Fatal("closed though stopped")
		default:
		}
	})
}

func TestAfterIsNotEarlyByTheSystemClock(t *testing.T) {
	c := clock.System()
	end := c.Now().Add(time.Millisecond)
	fired, stop := After(c, end.Sub(c.Now()))
	defer stop()
	<-fired
	require.False(t, c.Now().Before(end))
}
