package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// For the race detector: a hook reads its error while the library still adds the holder to the
// caller's error.
func TestAHookMayReadTheErrorOfAnAttemptWhileItIsExplained(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		read := make(chan string, 1)
		l := fl.locker(WithTrace(&Trace{Attempt: func(e RoundEvent) { read <- e.Err.Error() }}))
		take(t, fl.locker(WithOwner("other")), "a", time.Minute) // on each node, so that one attempt is enough
		_, err := l.TryAcquire(bg, "a", time.Minute)
		require.ErrorContains(t, err, `held by "other"`)
		require.Contains(t, <-read, "refused")
	})
}
