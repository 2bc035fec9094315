package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A partition ends the connections to a majority while an acquire is in transit, and the user may not
// kill connections. The servers execute the acquire later, for an hour. The name is free within ten
// seconds.
func TestANameWhoseAcquireWasLostByAMajorityIsSoonFree(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // its acquire is on its way when the others are lost
		fl.each(func(m *fakeredis.Master) { m.Deny("CLIENT KILL") })
		l := fl.locker()
		fl.answered()
		var lost []*fakeredis.Client
		for _, m := range fl.masters[:2] {
			c := m.Clients()[0]
			c.HoldRequests()
			lost = append(lost, c)
		}
		attempt := make(chan error, 1)
		go func() {
			_, err := l.TryAcquire(bg, "a", time.Hour)
			attempt <- err
		}()
		time.Sleep(100 * time.Millisecond)
		for _, c := range lost {
			c.Drop()
		}
		require.ErrorIs(t, <-attempt, ErrNoQuorum)
		time.Sleep(5 * time.Second) // by now each undo was executed
		for _, c := range lost {
			c.Release()
		}
		synctest.Wait()
		require.Equal(t, 2, fl.keys("a"), "the acquire was not executed late")
		other := fl.process().locker()
		_, err := other.TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(10 * time.Second)
		k := take(t, other, "a", time.Minute)
		require.NoError(t, k.Release(bg))
	})
}
