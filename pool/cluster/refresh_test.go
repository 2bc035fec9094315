package cluster

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// mapQueries returns how often the masters of a Cluster were asked for the slot map.
func mapQueries(cl *fakeredis.Cluster) (n int) {
	for _, m := range cl.Masters {
		n += nodetest.Count(m, "CLUSTER")
	}
	return n
}

// A Cluster that is being resharded would otherwise be asked for its map with every redirect.
func TestAFloodOfRedirectsIsNoFloodOfQuestions(t *testing.T) {
	const seconds = 5
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		owner := cl.Owner("foo")
		both := []*fakeredis.Master{nodetest.Others(cl, "foo")[0], owner}
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		for i := range 100 * seconds {
			cl.MoveSlot("foo", both[i%2])
			require.Equal(t, command.Granted, nodetest.Extending("A", nodetest.LongTTL, "foo").Outcome(t, n))
			time.Sleep(10 * time.Millisecond)
		}
		require.Greater(t, n.Stats().Redirects, int64(10*seconds))
		require.LessOrEqual(t, mapQueries(cl), 10*seconds+1)
		require.Greater(t, mapQueries(cl), 5*seconds)
	})
}

// After an outage one failed question would otherwise be followed by the longest pause.
func TestAnAnswerEndsThePausesBetweenQuestionsForTheMap(t *testing.T) {
	const longest = 8 * time.Second
	inCluster(t, func(c *pool.Config) { c.RedialMax = longest }, func(t *testing.T, cl *fakeredis.Cluster, _ *pool.Node) {
		deny := func(commands ...string) {
			for _, m := range cl.Masters {
				m.Deny(commands...)
				m.ForgetLog()
			}
		}
		deny("CLUSTER")
		time.Sleep(time.Minute)
		deny()
		time.Sleep(longest)
		require.Positive(t, mapQueries(cl), "it has the map again")
		deny("CLUSTER")
		for mapQueries(cl) == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		deny()
		time.Sleep(100 * time.Millisecond)
		require.Positive(t, mapQueries(cl))
	})
}

// A Cluster that needs long to greet would otherwise never vote.
func TestAClusterThatIsSlowToAnswerIsGivenMoreTime(t *testing.T) {
	nodetest.OnCluster(t, func(t *testing.T, cl *fakeredis.Cluster) {
		delay := func(d time.Duration) {
			for _, m := range cl.Masters {
				m.SetDelay(d)
			}
		}
		delay(2 * time.Second) // twice: the greeting, and the question
		n := openedCluster(t, cl, nil)
		defer n.Close()
		time.Sleep(time.Minute)
		require.Equal(t, 3, n.Stats().Masters)
		require.NoError(t, command.FromPool(n).WhyNotVoting())
		delay(0)
		time.Sleep(10 * refreshEvery)
		synctest.Wait()
		require.Zero(t, clusterOf(n).refresh.failed, "a frozen member delays the others by a second again")
	})
}

// The commands of a master that is gone would otherwise wait for as long as a dial takes.
func TestTheMapIsAskedForAsSoonAsAConnectionHasEnded(t *testing.T) {
	var hanging atomic.Value
	hang := func(c *pool.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == hanging.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
	}
	inCluster(t, hang, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		from, to := cl.Owner("foo"), nodetest.Others(cl, "foo")[0]
		time.Sleep(2 * time.Second)
		hanging.Store(from.Addr())
		cl.TakeSlot(from, to, true)
		nodetest.Only(t, from).Drop()
		synctest.Wait()
		began := time.Now()
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		require.LessOrEqual(t, time.Since(began), queryTimeout+refreshSeldom, "one question may go to the master that is gone")
	})
}

// A caller would otherwise wait for a master of which the node knows that it is down.
func TestACommandThatIsRedirectedToADeadMasterFailsAtOnce(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		to := nodetest.Others(cl, "foo")[0]
		to.Stop()
		time.Sleep(time.Second)
		cl.MoveSlot("foo", to)
		began := time.Now()
		nodetest.RequireUnsent(t, nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n).Reply(t))
		require.Zero(t, time.Since(began))
		require.Equal(t, int64(1), n.Stats().Redirects)
	})
}

// A caller would otherwise wait forever.
func TestCloseAnswersAllCommandsThatWaitForTheFirstMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := fakeredis.NewCluster("c", 3, command.Slot)
		defer cl.Close()
		cl.Masters[0].Freeze()
		n := openedCluster(t, cl, nil)
		calls := []*nodetest.Call{nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n), nodetest.Acquiring("B", nodetest.LongTTL, "bar").On(n), nodetest.Pinging().On(n)}
		require.NoError(t, n.Close())
		for _, c := range calls {
			require.ErrorIs(t, c.Reply(t).Err, pool.ErrClosed)
		}
	})
}
