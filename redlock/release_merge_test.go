package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// A merged call may be sent again after an error, and then behind what follows it. The attempt of the
// next holder would meet the key that it was to get.
func TestAReleaseInFrontOfAnAttemptIsNotMerged(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", time.Minute)
		next := make(chan *Lock, 1)
		go func() {
			k, err := l.AcquireAll(bg, []string{"a", "b"}, time.Minute)
			if err == nil {
				next <- k
			}
		}()
		synctest.Wait()
		require.NoError(t, k.Release(bg))
		require.NoError(t, (<-next).Release(bg))
		last := take(t, l, "a", time.Minute)
		require.NoError(t, last.Release(bg))
		synctest.Wait()
		for _, n := range nodes {
			list := n.commands(command.Release)
			require.Equal(t, command.Alone, list[0].MergeKind(), "in front of the attempt for a and b")
			require.Equal(t, command.MergedRelease, list[len(list)-1].MergeKind(), "nobody waits")
		}
	})
}
