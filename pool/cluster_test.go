package pool

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// inCluster runs a test in a bubble on a node that is a Cluster of three masters. The node has the
// Cluster's map.
func inCluster(t *testing.T, change func(c *Config), f func(t *testing.T, cl *fakeredis.Cluster, n *Node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		n := openedCluster(t, cl, change)
		defer n.Close()
		synctest.Wait()
		for _, m := range cl.Masters {
			m.ForgetLog()
		}
		f(t, cl, n)
	})
}

func openedCluster(t *testing.T, cl *fakeredis.Cluster, change func(c *Config)) *Node {
	t.Helper()
	cfg := Config{Name: "n1", Dial: cl.Dial, Clock: clock.Runtime()}
	if change != nil {
		change(&cfg)
	}
	cfg.Cluster = cl.Addresses()[:1]
	n, err := Open(cfg)
	require.NoError(t, err)
	return n
}

// others returns the masters that do not have the key's slot.
func others(cl *fakeredis.Cluster, key string) []*fakeredis.Master {
	owner := cl.Owner(key)
	return slices.DeleteFunc(slices.Clone(cl.Masters), func(m *fakeredis.Master) bool { return m == owner })
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
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		require.True(t, voterOf(n).Kind().Cluster)
		for _, key := range []string{"foo", "bar", "orders", "{a}b", "x"} {
			require.Equal(t, command.Granted, acquiring("A", longTTL, key).outcome(t, n), key)
			_, there := cl.Owner(key).Get(key)
			require.True(t, there, key)
			require.Equal(t, command.Refused, acquiring("B", longTTL, key).outcome(t, n), key)
			require.Equal(t, command.Granted, extending("A", 2*longTTL, key).outcome(t, n), key)
			require.Equal(t, "A", inspecting(key).on(n).reply(t).KeyStates[0].Value, key)
			require.Equal(t, command.Granted, releasing("A", key).outcome(t, n), key)
			require.Zero(t, holders(cl, key), key)
		}
		require.Equal(t, command.Granted, acquiring("A", longTTL, "{a}1", "{a}2").outcome(t, n))
		require.Equal(t, command.Failed, acquiring("A", longTTL, "a", "b").outcome(t, n), "several slots")
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
		a, p := acquiring("A", longTTL, "foo").on(n), pinging().on(n)
		require.Equal(t, command.Granted, a.reply(t).Outcome)
		require.Equal(t, command.Granted, p.reply(t).Outcome)
	})
}

func TestWithoutAMapCommandsFailAtOnceAndSayWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		cl.Masters[0].Stop()
		n := openedCluster(t, cl, nil)
		defer n.Close()
		requireUnsent(t, acquiring("A", longTTL, "foo").on(n).reply(t))
		undo := releasing("A", "foo").within(n, longTTL).on(n)
		late := releasing("B", "foo").within(n, time.Millisecond).on(n)
		r := acquiring("A", longTTL, "foo").on(n).reply(t)
		require.ErrorContains(t, r.Err, "n1: no cluster node returned CLUSTER SLOTS: c-1:6379: ")
		require.ErrorContains(t, r.Err, "connection refused")
		requireUnsent(t, late.reply(t))
		require.True(t, undo.pending())
		require.NoError(t, cl.Masters[0].Restart(true))
		require.Equal(t, command.Refused, undo.reply(t).Outcome, "undos are kept")
		require.Equal(t, command.Granted, acquiring("A", longTTL, "foo").outcome(t, n))
	})
}

func TestASlotThatMovedIsFollowed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		from, to := cl.Owner("foo"), others(cl, "foo")[0]
		require.Equal(t, command.Granted, acquiring("A", longTTL, "foo").outcome(t, n))
		cl.MoveSlot("foo", to)
		require.Equal(t, command.Granted, extending("A", 2*longTTL, "foo").outcome(t, n))
		require.Equal(t, int64(1), n.Stats().Redirects)
		require.Equal(t, command.Refused, acquiring("B", longTTL, "foo").outcome(t, n))
		require.Equal(t, int64(1), n.Stats().Redirects, "and known from then on")
		time.Sleep(refreshSeldom)
		synctest.Wait()
		require.Equal(t, 1, count(to, "CLUSTER"), "the map is asked for, of who knows best")
		require.Equal(t, command.Granted, releasing("A", "foo").outcome(t, n))
		require.Zero(t, holders(cl, "foo"))
		require.Equal(t, 1, count(from, "EVALSHA extend"))
	})
}

func TestAKeyThatIsBeingMovedIsFollowedOnce(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		from, to := cl.Owner("foo"), others(cl, "foo")[0]
		cl.StartMigration("foo", to)
		require.Equal(t, command.Granted, acquiring("A", longTTL, "foo").outcome(t, n))
		require.Equal(t, []string{"ASKING", "SET"}, quiet(to))
		require.Equal(t, command.Refused, acquiring("B", longTTL, "foo").outcome(t, n))
		require.Equal(t, 2, count(from, "SET"), "the slot is still there")
		require.Equal(t, command.Granted, releasing("A", "foo").outcome(t, n))
		require.Zero(t, holders(cl, "foo"))
		cl.FinishMigration("foo")
		require.Equal(t, command.Granted, acquiring("A", longTTL, "foo").outcome(t, n))
		_, there := to.Get("foo")
		require.True(t, there)
	})
}

// Many commands share the batches of one connection. ASKING directly precedes each command that
// needs it.
func TestASKINGConcernsTheCommandBehindItAlone(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		to := others(cl, "foo")[0]
		cl.StartMigration("foo", to)
		var calls []*call
		for i := range 50 {
			calls = append(calls, acquiring("A", longTTL, "{foo}"+string(rune('a'+i))).on(n))
		}
		for _, c := range calls {
			require.Equal(t, command.Granted, c.reply(t).Outcome)
		}
		all := quiet(to)
		require.Len(t, all, 100)
		for i := range calls {
			require.Equal(t, []string{"ASKING", "SET"}, all[2*i:2*i+2])
		}
	})
}

// Some of several keys have been migrated. The answer to that is not a refusal.
func TestTRYAGAINAndCLUSTERDOWNAreFaultsAndNoVotes(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		to := others(cl, "foo")[0]
		require.Equal(t, command.Granted, acquiring("A", longTTL, "{foo}1", "{foo}2").outcome(t, n))
		cl.StartMigration("foo", to)
		cl.MigrateKey("{foo}1")
		r := extending("A", longTTL, "{foo}1", "{foo}2").on(n).reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "TRYAGAIN")
		undo := releasing("A", "{foo}1", "{foo}2").within(n, longTTL).on(n)
		require.True(t, undo.reply(t).Retrying)
		cl.FinishMigration("foo")
		require.Equal(t, command.Granted, undo.reply(t).Outcome, "repeated")

		cl.StartMigration("foo", others(cl, "foo")[0])
		r = acquiring("B", longTTL, "{foo}3", "{foo}4").on(n).reply(t)
		require.Equal(t, command.Failed, r.Outcome, "keys that are nowhere are not both there either")
		require.ErrorContains(t, r.Err, "TRYAGAIN")
		cl.FinishMigration("foo")
		to = cl.Owner("foo")

		cl.TakeSlot(to, nil, false)
		synctest.Wait()
		r = acquiring("B", longTTL, "foo").on(n).reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "CLUSTERDOWN")
		time.Sleep(time.Second)
		require.ErrorIs(t, pinging().on(n).reply(t).Err, command.ErrUnfit)
		require.ErrorContains(t, pinging().on(n).reply(t).Err, "slots are unassigned")
	})
}

func TestMastersThatSendACommandToAndFroDoNotDoSoForEver(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		a, b := cl.Owner("foo"), others(cl, "foo")[0]
		a.FailWith("SET", "MOVED 12182 "+b.Addr())
		b.FailWith("SET", "MOVED 12182 "+a.Addr())
		r := acquiring("A", longTTL, "foo").on(n).reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "MOVED")
		require.Equal(t, int64(maxRedirects), n.Stats().Redirects)
	})
}
