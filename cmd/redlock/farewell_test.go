//go:build unix && !aix && !solaris

package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// parting is what `run` does last, on nodes of which so many are frozen then.
func parting(t *testing.T, frozen int) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var nodes []redlock.Node
		var all []*fakeredis.Master
		for _, name := range []string{"a", "b", "c"} {
			m := fakeredis.New(name)
			defer m.Close()
			n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: m.Dial, Clock: clock.Runtime()})
			require.NoError(t, err)
			defer func() { _ = n.Close() }()
			nodes, all = append(nodes, n), append(all, m)
		}
		l, err2 := redlock.New(nodes, redlock.WithClock(clock.Runtime()), redlock.WithNodeTimeout(coldTimeout))
		require.NoError(t, err2)
		lock, err2 := l.TryAcquire(context.Background(), "job", 30*time.Second)
		require.NoError(t, err2)
		synctest.Wait()
		for _, m := range all[:frozen] {
			m.Freeze()
		}
		began := time.Now()
		bye, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = releaseLock(bye, lock)
		closeIn(bye, l)
		took = time.Since(began)
		time.Sleep(time.Minute) // what it left in the background comes to its end
	})
	return took, err
}

func TestALockIsReleasedAtOnceIfAQuorumAnswers(t *testing.T) {
	took, err := parting(t, 0)
	require.NoError(t, err)
	require.Zero(t, took)
}

func TestADeadMinorityOrMajorityIsWaitedForInThePartingForNoLongerThanTheFarewell(t *testing.T) {
	took, err := parting(t, 1)
	require.NoError(t, err)
	require.Equal(t, closeTimeout, took)

	took, err = parting(t, 2)
	require.ErrorIs(t, err, errNotAllAnswered)
	require.ErrorContains(t, err, "job: ")
	require.Equal(t, closeTimeout, took, "and not the node timeout of %v", coldTimeout)
}
