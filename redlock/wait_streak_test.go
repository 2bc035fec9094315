package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/waiting"
)

// A name's state is kept for a second where others wait, and then nothing is left of it.
func TestAPlaceIsKeptWhereOthersWait(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		require.NoError(t, k.Release(bg))
		fl.answered()
		names, _ := a.waiting.Size()
		require.Equal(t, 1, names)
		pass(waiting.Linger)
		quiet(t, a)
		require.NoError(t, gets(t, done).k.Release(bg))
		fl.answered()
	})
}
