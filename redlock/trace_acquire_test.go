package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Under the race detector: the error that a hook reads is not the one that is still
// being explained.
func TestAHookMayReadTheErrorOfAnAttemptWhileItIsExplained(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		read := make(chan string, 1)
		l := fl.locker(WithTrace(&Trace{Attempt: func(e AttemptEvent) { read <- e.Err.Error() }}))
		_, err := fl.locker(WithOwner("other")).TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		_, err = l.TryAcquire(bg, "a", time.Minute)
		require.ErrorContains(t, err, `held by "other"`)
		require.Contains(t, <-read, "refused")
	})
}
