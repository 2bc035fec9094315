package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/guard"
)

// The counters of a lock's keys are written from a list of keys, and the marker is the last key of
// that list.
func TestFencesAndMarkersKeepApart(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.guarded(WithFencing(), WithRepair())
		before := map[string]string{}
		for _, m := range fl.masters {
			before[m.Name()], _ = m.Get(guard.Key)
		}
		last := int64(0)
		for _, names := range [][]string{{"a"}, {"a", "b"}, {"b", "c", "d"}} {
			for range 3 {
				k, err := l.TryAcquireAll(bg, names, 2*time.Second)
				require.NoError(t, err)
				require.Greater(t, k.Fence(), last)
				last = k.Fence()
				fl.answered()
				fl.masters[0].Del("b")
				require.NoError(t, k.Extend(bg, 3*time.Second))
				pass(time.Second)
				require.NoError(t, k.Release(bg))
				fl.answered()
				for _, m := range fl.masters {
					v, _ := m.Get(guard.Key)
					require.Equal(t, before[m.Name()], v)
					require.Zero(t, m.TTL(guard.Key))
				}
			}
		}
	})
}
