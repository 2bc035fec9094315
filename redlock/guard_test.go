package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const guardTTL = 10 * time.Second

func TestANewDeploymentWaitsOnceByItself(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithRestartGuard(guardTTL))
		_, err := l.TryAcquire(bg, "a", 5*time.Second)
		require.ErrorIs(t, err, ErrQuarantined)
		var qe *QuorumError
		require.ErrorAs(t, err, &qe)
		require.Equal(t, guardTTL, qe.QuarantinedFor())
		began := l.now()
		k, err := l.Acquire(bg, "a", 5*time.Second)
		require.NoError(t, err)
		require.InDelta(t, guardTTL, l.now().Sub(began), float64(time.Second))
		fl.answered()
		require.NoError(t, k.Extend(bg, 5*time.Second))
		require.NoError(t, k.Check(bg))
		require.NoError(t, l.Healthy(bg))
		require.NoError(t, k.Release(bg))
	})
}
