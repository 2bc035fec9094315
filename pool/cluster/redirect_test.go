package cluster

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// patient lets connections survive what a test does with them.
func patient(c *pool.Config) { c.HardTimeout = time.Minute }

// heldBack returns the one client of a master and holds back its commands.
func heldBack(t *testing.T, m *fakeredis.Master) *fakeredis.Client {
	t.Helper()
	c := nodetest.Only(t, m)
	c.HoldRequests()
	return c
}

// docs/dev/rules.md rules 6 and 30: the acquire is in transit to a master when the map names
// another one. The undo must not overtake the acquire by going there.
func TestAnUndoGoesBehindItsAcquireWhateverTheMapSays(t *testing.T) {
	for name, submit := range map[string]func(n *pool.Node, acquire *nodetest.Call){
		"alone": func(n *pool.Node, acquire *nodetest.Call) { acquire.On(n) },
		"behind a release": func(n *pool.Node, acquire *nodetest.Call) {
			require.NoError(t, command.FromPool(n).Submit(&nodetest.Releasing("X", "foo").Command, &acquire.Command))
		},
	} {
		inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
			a, b := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
			late := heldBack(t, a)
			acquire := nodetest.Acquiring("A", nodetest.LongTTL, "foo")
			submit(n, acquire)
			synctest.Wait()
			cl.MoveSlot("foo", b)
			time.Sleep(2 * refreshEvery)
			synctest.Wait()
			require.Equal(t, command.Refused, nodetest.Extending("X", nodetest.LongTTL, "foo").Outcome(t, n), "by the new map")
			require.False(t, acquire.Cancel(), name)
			undo := nodetest.Releasing("A", "foo").Within(n, time.Minute).On(n)
			synctest.Wait()
			cl.MoveSlot("foo", a)
			late.Release()
			require.Equal(t, command.Granted, acquire.Reply(t).Outcome, name)
			require.Equal(t, command.Granted, undo.Reply(t).Outcome, name)
			require.Zero(t, holders(cl, "foo"), name)
		})
	}
}

// docs/dev/hazards.md H28, with MOVED in place of NOSCRIPT.
func TestAnAcquireThatWasGivenUpIsNotSentOn(t *testing.T) {
	inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		late := heldBack(t, a)
		acquire := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n)
		synctest.Wait()
		cl.MoveSlot("foo", b)
		require.False(t, acquire.Cancel())
		undo := nodetest.Releasing("A", "foo").On(n)
		late.Release()
		r := acquire.Reply(t)
		require.Equal(t, command.Failed, r.Outcome)
		require.ErrorContains(t, r.Err, "MOVED")
		require.Equal(t, command.Refused, undo.Reply(t).Outcome)
		synctest.Wait()
		require.Zero(t, nodetest.Count(b, "SET"))
		require.Equal(t, 1, nodetest.Count(b, "EVALSHA release"))
	})
}

// The acquire was sent on before it was cancelled. Its undo follows it there.
func TestAnUndoGoesBehindAnAcquireThatWasSentOn(t *testing.T) {
	inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		cl.StartMigration("foo", b)
		late := heldBack(t, b)
		acquire := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n)
		synctest.Wait()
		require.Equal(t, 1, nodetest.Count(a, "SET"))
		require.False(t, acquire.Cancel())
		undo := nodetest.Releasing("A", "foo").On(n)
		synctest.Wait()
		require.Zero(t, nodetest.Count(a, "EVALSHA release"))
		late.Release()
		require.Equal(t, command.Granted, acquire.Reply(t).Outcome)
		r := undo.Reply(t)
		require.Equal(t, command.Granted, r.Outcome, "%v", r.Err)
		require.Zero(t, holders(cl, "foo"))
	})
}

// The master crashes with an acquire that it has executed and not answered, and a replica takes its
// slots.
func TestAnUndoGoesToTheNewOwnerOfADeadMastersSlots(t *testing.T) {
	for _, before := range []bool{true, false} {
		inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
			a, b := cl.Owner("foo"), cl.Add()
			nodetest.Only(t, a).HoldReplies()
			acquire := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n)
			synctest.Wait()
			if before { // the undo is under way as well
				heldBack(t, a)
				acquire.Cancel()
			} else {
				a.Stop()
				require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
			}
			undo := nodetest.Releasing("A", "foo").Within(n, nodetest.LongTTL).On(n)
			synctest.Wait()
			a.Stop()
			time.Sleep(3 * time.Second)
			require.True(t, undo.Pending())
			cl.TakeSlot(a, b, true)
			require.Equal(t, 2, holders(cl, "foo"))
			began := time.Now()
			r := undo.Reply(t)
			require.Less(t, time.Since(began), 2*time.Second, "as soon as the map says so")
			require.Contains(t, []command.Outcome{command.Granted, command.Unknown}, r.Outcome)
			_, there := b.Get("foo")
			require.False(t, there)
			require.Equal(t, command.Granted, nodetest.Acquiring("B", nodetest.LongTTL, "foo").Outcome(t, n))
		})
	}
}

// docs/dev/hazards.md H95: the old connection cannot be killed, so its acquire may still execute,
// also after the undo has been sent on. The slot may return before the acquire is read.
func TestAnUndoThatWasSentOnIsRepeatedWhereItsAcquireMayStillCome(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		a.Deny("CLIENT KILL")
		late := heldBack(t, a)
		acquire := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n)
		synctest.Wait()
		late.Drop()
		require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
		synctest.Wait()
		cl.StartMigration("foo", b)
		undo := nodetest.Releasing("A", "foo").Within(n, nodetest.LongTTL).On(n)
		require.Equal(t, command.Refused, undo.Reply(t).Outcome, "by the other master")
		cl.StartMigration("foo", nil) // the migration is cancelled
		late.Release()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, nodetest.Count(a, "SET"), "it was executed")
		require.Zero(t, holders(cl, "foo"))
	})
}

// An undo may come several times to the node where its acquire may still execute, and be refused by
// the other. Each repetition causes one other, not two.
func TestAnUndoThatIsSentToAndFroIsRepeatedOnceInEachPlace(t *testing.T) {
	for _, keys := range [][]string{{"foo"}, {"{foo}1", "{foo}2"}} { // the second: TRYAGAIN
		inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
			from, to := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
			feared := from
			if len(keys) == 1 {
				cl.StartMigration("foo", to)
				feared = to
			}
			feared.Deny("CLIENT KILL")
			late := heldBack(t, feared)
			acquire := nodetest.Acquiring("A", nodetest.LongTTL, keys...).On(n)
			synctest.Wait()
			late.Drop()
			require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
			synctest.Wait()
			cl.StartMigration("foo", to)
			nodetest.Releasing("A", keys...).Within(n, nodetest.LongTTL).On(n)
			time.Sleep(9 * time.Second)
			from.ForgetLog()
			to.ForgetLog()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			require.LessOrEqual(t, nodetest.Count(from, "EVALSHA release"), 10)
			require.LessOrEqual(t, nodetest.Count(to, "EVALSHA release"), 10)
		})
	}
}

func TestAFailoverIsFollowed(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		a.Stop()
		synctest.Wait()
		require.Equal(t, command.Failed, nodetest.Extending("A", nodetest.LongTTL, "foo").Outcome(t, n))
		require.Equal(t, command.Failed, nodetest.Pinging().Outcome(t, n))
		cl.TakeSlot(a, b, true)
		time.Sleep(2 * time.Second)
		require.Equal(t, command.Granted, nodetest.Extending("A", nodetest.LongTTL, "foo").Outcome(t, n))
		require.Equal(t, command.Granted, nodetest.Pinging().Outcome(t, n))
		require.Equal(t, command.Granted, nodetest.Releasing("A", "foo").Outcome(t, n))
		require.Zero(t, n.Stats().Redirects, "the map was asked for because the master was gone")
	})
}

// A release and the acquire after it keep their order wherever the slot goes.
func TestAReleaseAndTheAcquireBehindItAreFollowedInOrder(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		b := nodetest.Others(cl, "foo")[0]
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		cl.MoveSlot("foo", b)
		for _, pair := range [][2]string{{"A", "B"}, {"B", "C"}} {
			release, acquire := nodetest.Releasing(pair[0], "foo"), nodetest.Acquiring(pair[1], nodetest.LongTTL, "foo")
			require.NoError(t, command.FromPool(n).Submit(&release.Command, &acquire.Command))
			require.Equal(t, command.Granted, release.Reply(t).Outcome)
			require.Equal(t, command.Granted, acquire.Reply(t).Outcome)
		}
		require.Equal(t, int64(2), n.Stats().Redirects)
		clusterOf(n).mu.Lock()
		defer clusterOf(n).mu.Unlock()
		require.Empty(t, clusterOf(n).slots.acquires)
	})
}

func TestAClosedClusterAnswersEverything(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		cl.Owner("foo").Freeze()
		sent := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n)
		synctest.Wait()
		require.NoError(t, n.Close())
		require.Equal(t, command.Unknown, sent.Reply(t).Outcome)
		nodetest.RequireUnsent(t, nodetest.Acquiring("B", nodetest.LongTTL, "foo").On(n).Reply(t))
		nodetest.RequireUnsent(t, nodetest.Pinging().On(n).Reply(t))
		require.NoError(t, n.Close())
	})
}

// Errors are shown without what has the form of a token, and a label of a host name may have it.
func TestARedirectIsFollowedToAHostWhoseNameLooksLikeAToken(t *testing.T) {
	const host = "abcdefghijklmnopqrstuvwxyz.example:7000"
	var to *fakeredis.Master
	inCluster(t, func(c *pool.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == host {
				address = to.Addr()
			}
			return dial(ctx, network, address)
		}
	}, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		from := cl.Owner("foo")
		to = nodetest.Others(cl, "foo")[0]
		cl.MoveSlot("foo", to)
		from.Hook(func(_ int64, cmd string, _ []string) (string, bool) { return "MOVED 12182 " + host, cmd == "SET" })
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		_, there := to.Get("foo")
		require.True(t, there)
	})
}
