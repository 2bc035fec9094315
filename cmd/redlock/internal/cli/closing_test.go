package cli

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
		l, all := lockerInMemory(t)
		lock, err2 := l.TryAcquire(context.Background(), "job", 30*time.Second)
		require.NoError(t, err2)
		allHold(all)
		for _, m := range all[:frozen] {
			m.Freeze()
		}
		began := time.Now()
		closing, cancel := context.WithTimeout(context.Background(), CloseTimeout)
		defer cancel()
		err = Release(closing, lock)
		CloseIn(closing, l)
		took = time.Since(began)
		time.Sleep(time.Minute) // what it left in the background comes to its end
	})
	return took, err
}

// lockerInMemory makes a Locker over three nodes in a bubble. Its nodes keep a silent connection for long.
func lockerInMemory(t *testing.T) (*redlock.Locker, []*fakeredis.Master) {
	t.Helper()
	var nodes []*pool.Node
	var all []*fakeredis.Master
	set := late.Of(t, 3)
	for i, name := range []string{"a", "b", "c"} {
		m := fakeredis.New(name)
		t.Cleanup(m.Close)
		dial := m.Dial
		if set.Is(i) {
			dial = m.DialLate(set.Next())
		}
		n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: dial, Clock: clock.Runtime(), HardTimeout: time.Minute})
		require.NoError(t, err)
		t.Cleanup(func() { _ = n.Close() }) // a command may end without the Close of its Locker
		nodes, all = append(nodes, n), append(all, m)
	}
	l, err := redlock.New(nodes, redlock.WithClock(clock.Runtime()), redlock.WithNodeTimeout(ColdTimeout))
	require.NoError(t, err)
	return l, all
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
	require.Equal(t, CloseTimeout, took)

	took, err = endOfRun(t, 2)
	require.ErrorIs(t, err, errNotAllAnswered)
	require.ErrorContains(t, err, "job: ")
	require.Equal(t, CloseTimeout, took, "and not the node timeout of %v", ColdTimeout)
}

// A refused attempt leaves an undo at the node that does not answer.
func TestAcquireWaitsAtItsEndForAFrozenNodeForTheAnswerTimeoutOnly(t *testing.T) {
	for exit, want := range map[int]time.Duration{ExitOK: AnswerTimeout, ExitHeld: CloseTimeout} {
		synctest.Test(t, func(t *testing.T) {
			l, all := lockerInMemory(t)
			require.NoError(t, l.Healthy(context.Background()))
			allHold(all)
			all[2].Freeze()
			for _, m := range all[:2] {
				m.SetDelay(time.Millisecond) // the attempt is sent to the frozen node before the others decide it
			}
			for _, m := range all {
				m.Set("job", "anna:ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour)
			}
			_, err := l.TryAcquire(context.Background(), "job", 10*time.Minute)
			require.ErrorIs(t, err, redlock.ErrHeld)
			for _, m := range all {
				m.Del("job")
			}
			lock, err := l.TryAcquire(context.Background(), "job", 10*time.Minute)
			require.NoError(t, err)
			_, err = lock.Detach()
			require.NoError(t, err)
			began := time.Now()
			CloseAfterAcquire(l, exit)
			require.Equal(t, want, time.Since(began))
			time.Sleep(time.Hour) // what it left in the background comes to its end
		})
	}
}
