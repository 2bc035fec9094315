package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
)

// twice makes a Locker of three nodes, of which the last two are one server.
func (fl *testbed) twice(opts ...Option) *Locker {
	fl.t.Helper()
	var nodes []*pool.Node
	for i, name := range []string{"a", "b", "c"} {
		m := fl.masters[min(i, 1)]
		n, err := pool.Open(pool.Config{Name: name, Address: m.Addr(), Dial: m.Dial, Clock: fl.clock})
		require.NoError(fl.t, err)
		nodes = append(nodes, n)
	}
	l, err := New(nodes, append([]Option{WithClock(fl.clock)}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { fl.close(l) })
	synctest.Wait()
	return l
}

// docs/dev/hazards.md H34: without the check a crash of that one server would cost two votes.
func TestOneServerUnderTwoNamesVotesOnce(t *testing.T) {
	inBubble(t, 2, func(fl *testbed) {
		l := fl.twice()
		k, err := l.TryAcquire(bg, "x", time.Minute)
		require.NoError(t, err, "two of three")
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())

		fl.masters[0].Stop()
		time.Sleep(time.Second)
		err = tried(l)
		matches(t, err, ErrNoQuorum, ErrUnfit)
		require.ErrorContains(t, err, "b and c are the same server")
		require.ErrorContains(t, l.Healthy(bg), "b and c are the same server")
	})
}

// The server may vote under another name once the connections of its first name have ended.
func TestAServerThatMovesToAnotherNameVotesUnderIt(t *testing.T) {
	inBubble(t, 2, func(fl *testbed) {
		l := fl.twice()
		require.NoError(t, releasedAtOnce(l))
		require.NoError(t, l.nodes[1].Close())
		require.NoError(t, releasedAtOnce(l), "a and c")
	})
}

func releasedAtOnce(l *Locker) error {
	k, err := l.TryAcquire(bg, "x", time.Minute)
	if err != nil {
		return err
	}
	return k.Release(bg)
}

func TestUnfitNodesVoteWhereTheyAreExcepted(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.masters[0].SetInfo("maxmemory", "1000")
		fl.masters[0].SetInfo("maxmemory_policy", "volatile-lru")
		fl.masters[1].Deny("INFO")
		for _, c := range []struct {
			opts    []Option
			granted int
		}{
			{nil, 1},
			{[]Option{WithUnsafeNodes("n1")}, 2},
			{[]Option{WithUnsafeNodes("n1"), WithUnsafeNodes("n2", "n3")}, 3},
		} {
			l := fl.locker(c.opts...)
			k, err := l.TryAcquire(bg, "x", time.Minute)
			fl.answered()
			if c.granted < 2 {
				matches(t, err, ErrNoQuorum, ErrUnfit)
				require.ErrorContains(t, err, "n1 deletes keys when its memory is full (volatile-lru")
				require.ErrorContains(t, err, "n2 does not answer INFO")
				require.Equal(t, []Outcome{OutcomeFailed, OutcomeFailed}, votes(t, err)[:2])
				continue
			}
			require.NoError(t, err)
			require.Equal(t, c.granted, fl.keys("x"))
			require.NoError(t, k.Release(bg))
			fl.answered()
			require.Empty(t, fl.left())
		}
		refuses(t, func() error { _, err := newOver(fl.locker().nodes, WithUnsafeNodes("n4")); return err }(), "n4", "n1", "WithUnsafeNodes")
	})
}

// A lock that is held meanwhile is not lost: its keys on a majority remain, and the release also
// reaches the unfit node.
func TestANodeThatBecomesUnfitDuringAHoldIsStillReleased(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.Acquire(bg, "x", time.Minute)
		require.NoError(t, err)
		fl.masters[0].SetInfo("role", "slave")
		time.Sleep(11 * time.Second)
		require.NoError(t, k.Extend(bg, time.Minute))
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Empty(t, fl.left())
		fl.masters[0].SetInfo("role", "")
		time.Sleep(recheckAfter + time.Millisecond)
		fl.answered() // the check, too
		k, err = l.Acquire(bg, "x", time.Minute)
		require.NoError(t, err)
		fl.answered()
		require.Equal(t, 3, fl.keys("x"), "it was cured, and votes again")
		require.NoError(t, k.Release(bg))
	})
}

// longGuard is longer than the TTL of the locks that the test helpers acquire.
const longGuard = 2 * time.Minute

// One node is quarantined and another one frozen. Otherwise a waiter would not notice that the frozen node is back
// before the quarantine ends.
func TestAWaiterNoticesWithinSecondsThatANodeIsBackDuringTheQuarantineOfAnother(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithRestartGuard(longGuard))
		fl.serve(l)
		require.NoError(t, fl.masters[0].Restart(false))
		fl.masters[1].Freeze()
		done := wants(bg, l, "a")
		pass(3 * time.Second)
		require.Empty(t, done)
		fl.masters[1].Unfreeze()
		require.Less(t, elapsed(func() { require.NoError(t, gets(t, done).k.Release(bg)) }), 2*time.Second)
	})
}

// docs/dev/hazards.md H112: a client without the guard may read guarded nodes, and do nothing else.
func TestAClientWithoutTheGuardMayOnlyInspectGuardedNodes(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ours := fl.locker(WithRestartGuard(longGuard))
		fl.serve(ours)
		k, err := ours.Acquire(bg, "y", time.Minute)
		require.NoError(t, err)
		claim, err := k.Detach()
		require.NoError(t, err)

		l := fl.process().locker()
		for range 2 { // also after a read was allowed
			s, err := l.Inspect(bg, "y")
			require.NoError(t, err)
			require.True(t, s.Held)
			matches(t, tried(l), ErrNoQuorum, ErrUnfit)
			matches(t, l.Healthy(bg), ErrNoQuorum, ErrUnfit)
			_, err = l.Resume(bg, claim)
			matches(t, err, ErrNoQuorum, ErrUnfit)
			require.ErrorContains(t, err, "use WithRestartGuard")
		}
	})
}
