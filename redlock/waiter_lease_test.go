package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A lock's context applies what is due when it is asked for its error, and so may end the lock:
// whoever looks for the next in line must not ask it where nothing may end.
func TestALockWhoseTimeIsOverMayBeWhatTheNextInLineDependsOn(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		outer, k := take(t, l, "outer", time.Minute), take(t, l, "a", time.Hour)
		done := waitingFor(outer.Context(), l, "a")
		behind := waitingFor(bg, l, "a")
		fl.clock.Suspend(2 * time.Minute) // no timer has noticed yet
		require.NoError(t, k.Release(bg))
		w := <-done
		require.ErrorIs(t, w.err, ErrLost)
		gets(t, behind)
		synctest.Wait()
		require.Equal(t, 0, fl.keys("outer"))
	})
}
