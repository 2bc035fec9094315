package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// patient lets connections survive what a test does with them.
func patient(c *Config) { c.HardTimeout = time.Minute }

// heldBack returns the one client of a master and holds back its commands.
func heldBack(t *testing.T, m *fakeredis.Master) *fakeredis.Client {
	t.Helper()
	c := only(t, m)
	c.HoldRequests()
	return c
}

// docs/dev/rules.md rules 6 and 30: the acquire is in transit to a master when the map names
// another one. The undo must not overtake the acquire by going there.
func TestAnUndoGoesBehindItsAcquireWhateverTheMapSays(t *testing.T) {
	for name, submit := range map[string]func(n *Node, acquire *call){
		"alone": func(n *Node, acquire *call) { acquire.on(n) },
		"behind a release": func(n *Node, acquire *call) {
			require.NoError(t, voterOf(n).Submit(&releasing("X", "foo").Command, &acquire.Command))
		},
	} {
		inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
			a, b := cl.Owner("foo"), others(cl, "foo")[0]
			late := heldBack(t, a)
			acquire := acquiring("A", longTTL, "foo")
			submit(n, acquire)
			synctest.Wait()
			cl.MoveSlot("foo", b)
			time.Sleep(2 * refreshEvery)
			synctest.Wait()
			require.Equal(t, command.Refused, extending("X", longTTL, "foo").outcome(t, n), "by the new map")
			require.False(t, acquire.Cancel(), name)
			undo := releasing("A", "foo").within(n, time.Minute).on(n)
			synctest.Wait()
			cl.MoveSlot("foo", a)
			late.Release()
			require.Equal(t, command.Granted, acquire.reply(t).Outcome, name)
			require.Equal(t, command.Granted, undo.reply(t).Outcome, name)
			require.Zero(t, holders(cl, "foo"), name)
		})
	}
}

// docs/dev/hazards.md H28, with MOVED in place of NOSCRIPT.
func TestAnAcquireThatWasGivenUpIsNotSentOn(t *testing.T) {
	inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		a, b := cl.Owner("foo"), others(cl, "foo")[0]
		late := heldBack(t, a)
		acquire := acquiring("A", longTTL, "foo").on(n)
		synctest.Wait()
		cl.MoveSlot("foo", b)
		require.False(t, acquire.Cancel())
		undo := releasing("A", "foo").on(n)
		late.Release()
		r := acquire.reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "MOVED")
		require.Equal(t, command.Refused, undo.reply(t).Outcome)
		synctest.Wait()
		require.Zero(t, count(b, "SET"))
		require.Equal(t, 1, count(b, "EVALSHA release"))
	})
}

// The acquire was sent on before it was cancelled. Its undo follows it there.
func TestAnUndoGoesBehindAnAcquireThatWasSentOn(t *testing.T) {
	inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		a, b := cl.Owner("foo"), others(cl, "foo")[0]
		cl.StartMigration("foo", b)
		late := heldBack(t, b)
		acquire := acquiring("A", longTTL, "foo").on(n)
		synctest.Wait()
		require.Equal(t, 1, count(a, "SET"))
		require.False(t, acquire.Cancel())
		undo := releasing("A", "foo").on(n)
		synctest.Wait()
		require.Zero(t, count(a, "EVALSHA release"))
		late.Release()
		require.Equal(t, command.Granted, acquire.reply(t).Outcome)
		r := undo.reply(t)
		require.Equal(t, command.Granted, r.Outcome, "%v", r.Err)
		require.Zero(t, holders(cl, "foo"))
	})
}

// The master crashes with an acquire that it has executed and not answered, and a replica takes its
// slots.
func TestAnUndoGoesToTheNewOwnerOfADeadMastersSlots(t *testing.T) {
	for _, before := range []bool{true, false} {
		inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
			a, b := cl.Owner("foo"), cl.Add()
			only(t, a).HoldReplies()
			acquire := acquiring("A", longTTL, "foo").on(n)
			synctest.Wait()
			if before { // the undo is under way as well
				heldBack(t, a)
				acquire.Cancel()
			} else {
				a.Stop()
				require.Equal(t, command.Unknown, acquire.reply(t).Outcome)
			}
			undo := releasing("A", "foo").within(n, longTTL).on(n)
			synctest.Wait()
			a.Stop()
			time.Sleep(3 * time.Second)
			require.True(t, undo.pending())
			cl.TakeSlot(a, b, true)
			require.Equal(t, 2, holders(cl, "foo"))
			began := time.Now()
			r := undo.reply(t)
			require.Less(t, time.Since(began), 2*time.Second, "as soon as the map says so")
			require.Contains(t, []command.Outcome{command.Granted, command.Unknown}, r.Outcome)
			_, there := b.Get("foo")
			require.False(t, there)
			require.Equal(t, command.Granted, acquiring("B", longTTL, "foo").outcome(t, n))
		})
	}
}

// docs/dev/hazards.md H95: the old connection cannot be killed, so its acquire may still execute,
// also after the undo has been sent on. The slot may return before the acquire is read.
func TestAnUndoThatWasSentOnIsRepeatedWhereItsAcquireMayStillCome(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		a, b := cl.Owner("foo"), others(cl, "foo")[0]
		a.Deny("CLIENT KILL")
		late := heldBack(t, a)
		acquire := acquiring("A", longTTL, "foo").on(n)
		synctest.Wait()
		late.Drop()
		require.Equal(t, command.Unknown, acquire.reply(t).Outcome)
		synctest.Wait()
		cl.StartMigration("foo", b)
		undo := releasing("A", "foo").within(n, longTTL).on(n)
		require.Equal(t, command.Refused, undo.reply(t).Outcome, "by the other master")
		cl.StartMigration("foo", nil) // the migration is cancelled
		late.Release()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, count(a, "SET"), "it was executed")
		require.Zero(t, holders(cl, "foo"))
	})
}

// An undo may come several times to the node where its acquire may still execute, and be refused by
// the other. Each repetition causes one other, not two.
func TestAnUndoThatIsSentToAndFroIsRepeatedOnceInEachPlace(t *testing.T) {
	for _, keys := range [][]string{{"foo"}, {"{foo}1", "{foo}2"}} { // the second: TRYAGAIN
		inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
			from, to := cl.Owner("foo"), others(cl, "foo")[0]
			feared := from
			if len(keys) == 1 {
				cl.StartMigration("foo", to)
				feared = to
			}
			feared.Deny("CLIENT KILL")
			late := heldBack(t, feared)
			acquire := acquiring("A", longTTL, keys...).on(n)
			synctest.Wait()
			late.Drop()
			require.Equal(t, command.Unknown, acquire.reply(t).Outcome)
			synctest.Wait()
			cl.StartMigration("foo", to)
			releasing("A", keys...).within(n, longTTL).on(n)
			time.Sleep(9 * time.Second)
			from.ForgetLog()
			to.ForgetLog()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.LessOrEqual(t, count(from, "EVALSHA release"), 10)
			require.LessOrEqual(t, count(to, "EVALSHA release"), 10)
		})
	}
}

func TestAFailoverIsFollowed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		a, b := cl.Owner("foo"), cl.Add()
		require.Equal(t, command.Granted, acquiring("A", longTTL, "foo").outcome(t, n))
		a.Stop()
		synctest.Wait()
		require.Equal(t, command.Failed, extending("A", longTTL, "foo").outcome(t, n))
		require.Equal(t, command.Failed, pinging().outcome(t, n))
		cl.TakeSlot(a, b, true)
		time.Sleep(2 * time.Second)
		require.Equal(t, command.Granted, extending("A", longTTL, "foo").outcome(t, n))
		require.Equal(t, command.Granted, pinging().outcome(t, n))
		require.Equal(t, command.Granted, releasing("A", "foo").outcome(t, n))
		require.Zero(t, n.Stats().Redirects, "the map was asked for because the master was gone")
	})
}

// A release and the acquire after it keep their order wherever the slot goes.
func TestAReleaseAndTheAcquireBehindItAreFollowedInOrder(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		b := others(cl, "foo")[0]
		require.Equal(t, command.Granted, acquiring("A", longTTL, "foo").outcome(t, n))
		cl.MoveSlot("foo", b)
		for _, pair := range [][2]string{{"A", "B"}, {"B", "C"}} {
			release, acquire := releasing(pair[0], "foo"), acquiring(pair[1], longTTL, "foo")
			require.NoError(t, voterOf(n).Submit(&release.Command, &acquire.Command))
			require.Equal(t, command.Granted, release.reply(t).Outcome)
			require.Equal(t, command.Granted, acquire.reply(t).Outcome)
		}
		require.Equal(t, int64(2), n.Stats().Redirects)
		clusterOf(n).mu.Lock()
		defer clusterOf(n).mu.Unlock()
		require.Empty(t, clusterOf(n).slots.acquires)
	})
}

func TestAClosedClusterAnswersEverything(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *Node) {
		cl.Owner("foo").Freeze()
		sent := acquiring("A", longTTL, "foo").on(n)
		synctest.Wait()
		require.NoError(t, n.Close())
		require.Equal(t, command.Unknown, sent.reply(t).Outcome)
		requireUnsent(t, acquiring("B", longTTL, "foo").on(n).reply(t))
		requireUnsent(t, pinging().on(n).reply(t))
		require.NoError(t, n.Close())
	})
}
