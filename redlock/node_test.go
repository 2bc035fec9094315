package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/sentinel"
)

func TestNodesBehindSentinelsNeedTheGuard(t *testing.T) {
	n, err := pool.Open(pool.Config{Name: "orders", Kind: &sentinel.Config{Master: "m", Addresses: []string{"127.0.0.1:1"}}})
	require.NoError(t, err)
	defer n.Close()
	_, err = New([]*pool.Node{n})
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "node orders follows Sentinels and needs WithRestartGuard")
	_, err = Open([]string{"redis+sentinel://127.0.0.1:1/m"})
	require.ErrorContains(t, err, "node m@127.0.0.1:1/0 follows Sentinels and needs WithRestartGuard")
	_, err = Open([]string{"redis+sentinel://127.0.0.1:1/m", "redis+sentinel://127.0.0.1:1/m"}, WithRestartGuard(time.Second))
	require.ErrorContains(t, err, "node m@127.0.0.1:1/0 is listed twice")
	l, err := Open([]string{"redis+sentinel://127.0.0.1:1/m", "redis+sentinel://127.0.0.1:1/n"}, WithRestartGuard(time.Second))
	require.NoError(t, err)
	require.Equal(t, map[string]time.Duration{"m@127.0.0.1:1/0": 5 * time.Second, "n@127.0.0.1:1/0": 5 * time.Second}, l.guard.MaxAge)
	require.NoError(t, l.Close(bg))
}

// docs/dev/hazards.md H37: A holds on two of three groups. One group's master fails over to a
// replica that lacks A's lock.
func TestAPromotedReplicaDoesNotVoteUntilWhatItMayLackIsOver(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, groups []*group) {
		groupsLateAt(groups, 2) // the others decide
		a, b := client(t, groups, &view{}), client(t, groups, &view{})
		ready(t, a, groups)
		ready(t, b, groups)
		third := groups[2].master
		third.Freeze()
		held, err := a.TryAcquire(bg, "x", guardTTL)
		require.NoError(t, err)
		third.Unfreeze()
		groupsAnswered(groups)
		third.Del("x") // as if the key had never been replicated
		groups[0].failOver(3, guard.Key)
		pass(time.Second)
		_, err = b.TryAcquire(bg, "x", time.Second)
		require.ErrorContains(t, err, "n1: failed: quarantined for")
		k, err := b.Acquire(bg, "x", time.Second)
		require.NoError(t, err)
		require.LessOrEqual(t, held.Remaining(), time.Duration(0))
		require.NoError(t, k.Release(bg))
	})
}

func TestALockOutlivesTheFailoverOfOneOfThreeGroups(t *testing.T) {
	onGroups(t, 3, func(t *testing.T, groups []*group) {
		l := client(t, groups, &view{}, WithRepair(), WithFencing())
		ready(t, l, groups)
		k, err := l.TryAcquire(bg, "x", guardTTL, WithAutoExtend())
		require.NoError(t, err)
		fence := k.Fence()
		for _, g := range groups {
			g.failOver(2)
			pass(2 * (guardTTL + settleTime))
			require.NoError(t, k.Context().Err())
			_, there := g.replica.Get("x")
			require.True(t, there, "repaired when %s voted again", g.name)
		}
		require.NoError(t, k.Release(bg))
		k, err = l.TryAcquire(bg, "x", guardTTL)
		require.NoError(t, err)
		require.Greater(t, k.Fence(), fence)
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/hazards.md H102: client A can reach only the old master and one of three Sentinels. The
// others promote the replica, which B follows at once. A acquires the lock whenever it can, and B
// waits for it. They must never both hold it.
func TestTwoMastersOfOnePartitionedNodeNeverBothHold(t *testing.T) {
	for _, phase := range []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond, 999 * time.Millisecond} {
		onGroups(t, 1, func(t *testing.T, groups []*group) {
			g := groups[0]
			far := &view{gone: map[string]bool{}}
			a, b := client(t, groups, far), client(t, groups, &view{})
			ready(t, a, groups)
			pass(phase)
			held, err := a.TryAcquire(bg, "x", guardTTL)
			require.NoError(t, err)
			far.losing(g.sentinels[1:]...)
			g.failOver(0, guard.Key) // the keys that the replica has
			for _, s := range g.sentinels[1:] {
				s.Failover("m", g.replica.Addr())
			}
			synctest.Wait()
			cut := a.now()
			won := make(chan time.Duration, 1)
			go func() {
				k, err := b.Acquire(bg, "x", time.Second)
				if err == nil {
					won <- a.now().Sub(cut)
					_ = k.Release(bg)
				}
			}()
			for a.now().Sub(cut) < 2*guardTTL && len(won) == 0 {
				pass(20 * time.Millisecond)
				if err := held.Extend(bg, guardTTL); err == nil && len(won) > 0 {
					require.Positive(t, held.Remaining())
				}
				require.False(t, len(won) > 0 && held.Remaining() > 0, "two hold the lock, %v after the partition", a.now().Sub(cut))
			}
			end := a.now().Sub(cut) + held.Remaining()
			synctest.Wait()
			require.NotEmpty(t, won)
			at := <-won
			require.GreaterOrEqual(t, at, guardTTL+settleTime)
			require.LessOrEqual(t, end, at)
			require.Greater(t, end, guardTTL+3*time.Second, "A voted on for almost all of Settle")
		})
	}
}

// The nodes of a list that is refused remain the caller's.
func TestANodeBelongsToOneLocker(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		node := func(i int) *pool.Node { return fl.node(fl.masters[i], pool.Config{}) }
		taken, free, closed := node(0), node(1), node(2)
		require.NoError(t, closed.Close())
		first, err := New([]*pool.Node{taken}, WithClock(fl.clock))
		require.NoError(t, err)
		_, err = New([]*pool.Node{free, taken}, WithClock(fl.clock))
		refuses(t, err, "node n1 (redis://n1:6379/0)", "belongs to another Locker")
		_, err = New([]*pool.Node{free, closed}, WithClock(fl.clock))
		refuses(t, err, "node n3 (redis://n3:6379/0)", "node is closed")
		require.NoError(t, first.Healthy(bg))
		require.NoError(t, first.Close(bg))
		_, err = New([]*pool.Node{taken}, WithClock(fl.clock))
		refuses(t, err, "node is closed")
		second, err := New([]*pool.Node{free}, WithClock(fl.clock))
		require.NoError(t, err)
		require.NoError(t, second.Healthy(bg))
		require.NoError(t, second.Close(bg))
		require.ErrorIs(t, command.FromPool(free).WhyNotVoting(), pool.ErrClosed)
	})
}

func TestOutcomesAreThoseOfTheAnswers(t *testing.T) {
	for ours, theirs := range map[Outcome]command.Outcome{
		OutcomeUnknown: command.Unknown, OutcomeGranted: command.Granted, OutcomeRefused: command.Refused, OutcomeFailed: command.Failed,
	} {
		require.Equal(t, Outcome(theirs), ours)
	}
}
