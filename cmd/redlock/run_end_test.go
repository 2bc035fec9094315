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
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// endOfRun does what run does last, with so many of three nodes frozen.
func endOfRun(t *testing.T, frozen int) (took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var nodes []redlock.Node
		var all []*fakeredis.Master
		set := late.Of(t, 3)
		for i, name := range []string{"a", "b", "c"} {
			m := fakeredis.New(name)
			defer m.Close()
			dial := m.Dial
			if set.Is(i) {
				dial = m.DialLate(set.Next())
			}
			n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: dial, Clock: clock.Runtime()})
			require.NoError(t, err)
			defer func() { _ = n.Close() }()
			nodes, all = append(nodes, n), append(all, m)
		}
		l, err2 := redlock.New(nodes, redlock.WithClock(clock.Runtime()), redlock.WithNodeTimeout(coldTimeout))
		require.NoError(t, err2)
		lock, err2 := l.TryAcquire(context.Background(), "job", 30*time.Second)
		require.NoError(t, err2)
		allHold(all)
		for _, m := range all[:frozen] {
			m.Freeze()
		}
		began := time.Now()
		closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		err = releaseLock(closing, lock)
		closeIn(closing, l)
		took = time.Since(began)
		time.Sleep(time.Minute) // what it left in the background comes to its end
	})
	return took, err
}

// allHold waits in a bubble until all nodes have executed what they were sent.
func allHold(all []*fakeredis.Master) {
	synctest.Wait()
	for _, m := range all {
		time.Sleep(m.Arriving()) // virtual
	}
	synctest.Wait()
}

func TestALockIsReleasedAtOnceIfAQuorumAnswers(t *testing.T) {
	late.LeaveOut(t, "it measures the end of a run on nodes that answer at once")
	took, err := endOfRun(t, 0)
	require.NoError(t, err)
	require.Zero(t, took)
}

func TestRunWaitsAtItsEndForFrozenNodesUntilTheCloseTimeout(t *testing.T) {
	took, err := endOfRun(t, 1)
	require.NoError(t, err)
	require.Equal(t, closeTimeout, took)

	took, err = endOfRun(t, 2)
	require.ErrorIs(t, err, errNotAllAnswered)
	require.ErrorContains(t, err, "job: ")
	require.Equal(t, closeTimeout, took, "and not the node timeout of %v", coldTimeout)
}
