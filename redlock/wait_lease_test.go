package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The Err method of a lock's context applies what is due, and so may end the lock. The code that
// chooses the next waiter must not call it where no lock may end.
func TestAnExpiredLockMayBlockTheNextWaiter(t *testing.T) {
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
		fl.answered()
		require.Equal(t, 0, fl.keys("outer"))
	})
}
