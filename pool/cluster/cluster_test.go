package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// The defaults of a pool.Config.
const hardTimeout, dialTimeout = 5 * time.Second, 5 * time.Second

// inCluster runs a test in a bubble on a node that is a Cluster of three masters. The node has the
// Cluster's map.
func inCluster(t *testing.T, change func(c *pool.Config), f func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node)) {
	t.Helper()
	nodetest.OnCluster(t, func(t *testing.T, cl *fakeredis.Cluster) {
		n := openedCluster(t, cl, change)
		defer n.Close()
		synctest.Wait()
		for _, m := range cl.Masters {
			m.ForgetLog()
		}
		f(t, cl, n)
	})
}

func openedCluster(t *testing.T, cl *fakeredis.Cluster, change func(c *pool.Config)) *pool.Node {
	t.Helper()
	cfg := pool.Config{Name: "n1", Dial: cl.Dial, Clock: clock.Runtime(), Kind: &Config{cl.Addresses()[:1]}}
	if change != nil {
		change(&cfg)
	}
	n, err := pool.Open(cfg)
	require.NoError(t, err)
	return n
}

// holders returns how many masters have the key.
func holders(cl *fakeredis.Cluster, key string) (n int) {
	for _, m := range cl.Masters {
		if _, ok := m.Get(key); ok {
			n++
		}
	}
	return n
}

func TestALockIsOnTheMasterOfItsSlot(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		require.True(t, command.FromPool(n).Kind().Cluster)
		for _, key := range []string{"foo", "bar", "orders", "{a}b", "x"} {
			require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, key).Outcome(t, n), key)
			_, there := cl.Owner(key).Get(key)
			require.True(t, there, key)
			require.Equal(t, command.Refused, nodetest.Acquiring("B", nodetest.LongTTL, key).Outcome(t, n), key)
			require.Equal(t, command.Granted, nodetest.Extending("A", 2*nodetest.LongTTL, key).Outcome(t, n), key)
			require.Equal(t, "A", nodetest.Inspecting(key).On(n).Reply(t).KeyStates[0].Value, key)
			require.Equal(t, command.Granted, nodetest.Releasing("A", key).Outcome(t, n), key)
			require.Zero(t, holders(cl, key), key)
		}
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "{a}1", "{a}2").Outcome(t, n))
		require.Equal(t, command.Failed, nodetest.Acquiring("A", nodetest.LongTTL, "a", "b").Outcome(t, n), "several slots")
		require.Zero(t, n.Stats().Redirects)
		require.Equal(t, 3, n.Stats().Masters)
		require.Equal(t, 3, n.Stats().Connected)
	})
}

// The first attempts after Open wait for the map, and do not fail.
func TestCommandsWaitForTheFirstMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		n := openedCluster(t, cl, nil)
		defer n.Close()
		a, p := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n), nodetest.Pinging().On(n)
		require.Equal(t, command.Granted, a.Reply(t).Outcome)
		require.Equal(t, command.Granted, p.Reply(t).Outcome)
	})
}

func TestWithoutAMapCommandsFailAtOnceAndSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		cl.Masters[0].Stop()
		n := openedCluster(t, cl, nil)
		defer n.Close()
		nodetest.RequireUnsent(t, nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n).Reply(t))
		undo := nodetest.Releasing("A", "foo").Within(n, nodetest.LongTTL).On(n)
		late := nodetest.Releasing("B", "foo").Within(n, time.Millisecond).On(n)
		r := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n).Reply(t)
		require.ErrorContains(t, r.Err, "n1: no cluster node returned CLUSTER SLOTS: c-1:6379: ")
		require.ErrorContains(t, r.Err, "connection refused")
		nodetest.RequireUnsent(t, late.Reply(t))
		require.True(t, undo.Pending())
		require.NoError(t, cl.Masters[0].Restart(true))
		require.Equal(t, command.Refused, undo.Reply(t).Outcome, "undos are kept")
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
	})
}

func TestASlotThatMovedIsFollowed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		from, to := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		cl.MoveSlot("foo", to)
		require.Equal(t, command.Granted, nodetest.Extending("A", 2*nodetest.LongTTL, "foo").Outcome(t, n))
		require.Equal(t, int64(1), n.Stats().Redirects)
		require.Equal(t, command.Refused, nodetest.Acquiring("B", nodetest.LongTTL, "foo").Outcome(t, n))
		require.Equal(t, int64(1), n.Stats().Redirects, "and known from then on")
		time.Sleep(refreshSeldom)
		synctest.Wait()
		require.Equal(t, 1, nodetest.Count(to, "CLUSTER"), "the map is asked for, of who knows best")
		require.Equal(t, command.Granted, nodetest.Releasing("A", "foo").Outcome(t, n))
		require.Zero(t, holders(cl, "foo"))
		require.Equal(t, 1, nodetest.Count(from, "EVALSHA extend"))
	})
}

func TestAKeyThatIsBeingMovedIsFollowedOnce(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		from, to := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		cl.StartMigration("foo", to)
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		require.Equal(t, []string{"ASKING", "SET"}, nodetest.Quiet(to))
		require.Equal(t, command.Refused, nodetest.Acquiring("B", nodetest.LongTTL, "foo").Outcome(t, n))
		require.Equal(t, 2, nodetest.Count(from, "SET"), "the slot is still there")
		require.Equal(t, command.Granted, nodetest.Releasing("A", "foo").Outcome(t, n))
		require.Zero(t, holders(cl, "foo"))
		cl.FinishMigration("foo")
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		_, there := to.Get("foo")
		require.True(t, there)
	})
}

// Many commands share the batches of one connection. ASKING directly precedes each command that
// needs it.
func TestASKINGConcernsTheCommandBehindItAlone(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		to := nodetest.Others(cl, "foo")[0]
		cl.StartMigration("foo", to)
		var calls []*nodetest.Call
		for i := range 50 {
			calls = append(calls, nodetest.Acquiring("A", nodetest.LongTTL, "{foo}"+string(rune('a'+i))).On(n))
		}
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		all := nodetest.Quiet(to)
		require.Len(t, all, 100)
		for i := range calls {
			require.Equal(t, []string{"ASKING", "SET"}, all[2*i:2*i+2])
		}
	})
}

// Some of several keys have been migrated. The answer to that is not a refusal.
func TestTRYAGAINAndCLUSTERDOWNAreFaultsAndNoVotes(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		to := nodetest.Others(cl, "foo")[0]
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "{foo}1", "{foo}2").Outcome(t, n))
		cl.StartMigration("foo", to)
		cl.MigrateKey("{foo}1")
		r := nodetest.Extending("A", nodetest.LongTTL, "{foo}1", "{foo}2").On(n).Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "TRYAGAIN")
		undo := nodetest.Releasing("A", "{foo}1", "{foo}2").Within(n, nodetest.LongTTL).On(n)
		require.True(t, undo.Reply(t).Retrying)
		cl.FinishMigration("foo")
		require.Equal(t, command.Granted, undo.Reply(t).Outcome, "repeated")

		cl.StartMigration("foo", nodetest.Others(cl, "foo")[0])
		r = nodetest.Acquiring("B", nodetest.LongTTL, "{foo}3", "{foo}4").On(n).Reply(t)
		require.Equal(t, command.Failed, r.Outcome, "keys that are nowhere are not both there either")
		require.ErrorContains(t, r.Err, "TRYAGAIN")
		cl.FinishMigration("foo")
		to = cl.Owner("foo")

		cl.TakeSlot(to, nil, false)
		synctest.Wait()
		r = nodetest.Acquiring("B", nodetest.LongTTL, "foo").On(n).Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "CLUSTERDOWN")
		time.Sleep(time.Second)
		require.ErrorIs(t, nodetest.Pinging().On(n).Reply(t).Err, command.ErrUnfit)
		require.ErrorContains(t, nodetest.Pinging().On(n).Reply(t).Err, "slots are unassigned")
	})
}

func TestMastersThatSendACommandToAndFroDoNotDoSoForEver(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		a.FailWith("SET", "MOVED 12182 "+b.Addr())
		b.FailWith("SET", "MOVED 12182 "+a.Addr())
		r := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n).Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "MOVED")
		require.Equal(t, int64(maxRedirects), n.Stats().Redirects)
	})
}

// The keys of two locks have different slots.
func TestAClusterMergesNothing(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		shard := clusterOf(n).shards[cl.Owner("foo").Addr()]
		release := func(key string) *nodetest.Call {
			return nodetest.NewCall(func(r *command.Request) {
				command.NewAnnouncingRelease(r, nodetest.Terms("T", []string{key}), 0, 0)
			})
		}
		a, b := release("foo"), release("foo{foo}")
		nodetest.TogetherAt(n, shard.Server, a, b)
		require.Equal(t, command.Refused, a.Reply(t).Outcome)
		require.Equal(t, command.Refused, b.Reply(t).Outcome)
		require.Zero(t, shard.Merged.Load())
	})
}
