package cluster

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/pool"
)

// A replica takes the slots of a master. After a while the master's connection is closed, and
// commands go to the new master.
func TestAMasterThatHasLeftIsRetired(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		require.Equal(t, 1, a.Connections())
		require.Zero(t, b.Connections())
		cl.TakeSlot(a, b, true)
		time.Sleep(refreshEvery + refreshSeldom)
		synctest.Wait()
		require.Equal(t, 1, b.Connections())
		require.Equal(t, 1, a.Connections(), "for a while: what is under way is answered")
		time.Sleep(refreshEvery + refreshSeldom)
		synctest.Wait()
		require.Zero(t, a.Connections())
		require.Equal(t, 3, n.Stats().Connected)
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
	})
}

// An undo was written to a master that became silent, and a replica took its slots. The node drops
// the master before it knows that the connection is silent.
func TestAnUnansweredUndoOfARetiredMasterGoesToItsSuccessor(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
		time.Sleep(hardTimeout / 10) // silence counts from the next check of the connection
		silent := heldBack(t, a)
		undo, other := nodetest.Releasing("A", "foo").Within(n, nodetest.LongTTL).On(n), nodetest.Extending("X", nodetest.LongTTL, "foo").On(n)
		synctest.Wait()
		cl.TakeSlot(a, b, true)
		clusterOf(n).refresh.wake.Set()
		time.Sleep(hardTimeout)
		require.True(t, undo.Pending())
		require.Equal(t, 4, n.Stats().Connected)
		clusterOf(n).refresh.wake.Set()
		synctest.Wait()
		require.Equal(t, 3, n.Stats().Connected)
		_, there := b.Get("foo")
		require.False(t, there)
		require.Equal(t, command.Granted, undo.Reply(t).Outcome)
		require.ErrorContains(t, other.Reply(t).Err, errNoMaster.Error(), "nothing else outlives its connection")
		require.Equal(t, 1, nodetest.Count(b, "EVALSHA release"))
		require.Zero(t, nodetest.Count(b, "EVALSHA extend"))
		silent.Release()
		synctest.Wait()
		require.Zero(t, a.Connections())
	})
}

// The undos would otherwise be lost, or wait for a master that is silent.
func TestARetiredMasterHandsItsUndosOver(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		m := clusterOf(n).shards[a.Addr()]
		var undos []*nodetest.Call
		for i := range 40 {
			key := fmt.Sprintf("{foo}%d", i)
			require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, key).Outcome(t, n))
			undos = append(undos, nodetest.Releasing("A", key).Within(n, nodetest.LongTTL))
		}
		time.Sleep(hardTimeout / 10) // silence counts from the next check of the connection
		for _, c := range a.Clients() {
			c.HoldRequests()
		}
		for _, undo := range undos {
			undo.On(n)
		}
		synctest.Wait()
		cl.TakeSlot(a, b, true)
		clusterOf(n).refresh.wake.Set()
		time.Sleep(hardTimeout)
		clusterOf(n).refresh.wake.Set()
		synctest.Wait()
		require.Equal(t, 3, n.Stats().Connected)
		began := time.Now()
		for _, undo := range undos {
			require.Equal(t, command.Granted, undo.Reply(t).Outcome)
		}
		require.Zero(t, time.Since(began))
		require.Empty(t, b.Keys())
		for i := range undos {
			late := nodetest.Inspecting(fmt.Sprintf("{foo}%d", i))
			m.Requeue(&late.Command)
			require.Equal(t, command.Granted, late.Reply(t).Outcome)
		}
	})
}

// The connections of the other one would otherwise stay open forever.
func TestTwoMastersThatHaveLeftAreRetired(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		last := cl.Owner("foo")
		for _, m := range nodetest.Others(cl, "foo") {
			cl.TakeSlot(m, last, true)
		}
		time.Sleep(2 * (refreshEvery + refreshSeldom))
		synctest.Wait()
		require.Equal(t, 1, n.Stats().Connected)
		for _, m := range cl.Masters {
			if m != last {
				require.Zero(t, m.Connections())
			}
		}
	})
}

// A goroutine may choose a master for its command, and submit the command while the master is being
// dropped or after that.
func TestCommandsToARetiredMasterGoToItsSuccessor(t *testing.T) {
	stages := map[string]func(m *shard){
		"first of all": func(m *shard) { m.Drain(handingBack(m)) },
		"while its connections end": func(m *shard) {
			m.Drain(handingBack(m))
			m.Stop(errNoMaster)
		},
		"last of all": func(m *shard) {
			m.Retire(handingBack(m), errNoMaster)
		},
	}
	ways := map[string]func(m *shard, c *nodetest.Call){
		"submitted": func(m *shard, c *nodetest.Call) {
			require.Equal(t, server.ErrRetired, m.Submit(&c.Command, nil))
			require.Equal(t, server.ErrRetired, m.Submit(&nodetest.Inspecting("foo").Command, &c.Command))
			require.NoError(t, m.router.(*clusterNode).dispatch(&c.Command))
		},
		"sent on": func(m *shard, c *nodetest.Call) { m.Requeue(&c.Command) },
	}
	commands := map[string]func() *nodetest.Call{
		"release": func() *nodetest.Call { return nodetest.Releasing("A", "foo") },
		"shorten": func() *nodetest.Call { return nodetest.Shortening("A", time.Second, "foo") },
		"extend":  func() *nodetest.Call { return nodetest.Extending("A", nodetest.LongTTL, "foo") },
		"inspect": func() *nodetest.Call { return nodetest.Inspecting("foo") },
		"acquire": func() *nodetest.Call { return nodetest.Acquiring("B", nodetest.LongTTL, "{foo}") },
	}
	for stage, end := range stages {
		for way, hand := range ways {
			for name, start := range commands {
				inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
					c := start()
					require.Equal(t, command.Granted, nodetest.Acquiring("A", nodetest.LongTTL, "foo").Outcome(t, n))
					a, b := cl.Owner("foo"), cl.Add()
					cl.TakeSlot(a, b, true)
					clusterOf(n).refresh.wake.Set()
					time.Sleep(refreshSeldom)
					synctest.Wait()
					a.ForgetLog()
					m := dropped(t, n, a, b)
					end(m)
					hand(m, c)
					require.Equal(t, command.Granted, c.Reply(t).Outcome, "%s of %s, %s", name, way, stage)
					require.Empty(t, nodetest.Quiet(a), "%s of %s, %s", name, way, stage)
					m.Retire(handingBack(m), errNoMaster)
				})
			}
		}
	}
}

// Only the master itself can answer a command that concerns it alone.
func TestAQueryOfARetiredMasterIsNotRedirected(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		m := clusterOf(n).shards[a.Addr()]
		cl.TakeSlot(a, b, true)
		time.Sleep(2 * (refreshEvery + refreshSeldom))
		synctest.Wait()
		require.Zero(t, a.Connections())
		require.ErrorIs(t, m.Submit(&nodetest.Pinging().Command, nil), server.ErrRetired)
	})
}

// docs/dev/rules.md rule 4: the command's connection ended, and the master may have executed it.
func TestCommandsToAMasterOfAClosedClusterAreAnswered(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		m := clusterOf(n).shards[cl.Owner("foo").Addr()]
		m.Retire(handingBack(m), errNoMaster)
		require.NoError(t, n.Close())
		fresh, carried := nodetest.Releasing("A", "foo"), nodetest.Releasing("B", "foo")
		require.True(t, carried.MarkSent())
		carried.MarkResend()
		for _, c := range []*nodetest.Call{fresh, carried} {
			m.Requeue(&c.Command)
		}
		r := fresh.Reply(t)
		nodetest.RequireUnsent(t, r)
		require.ErrorIs(t, r.Err, pool.ErrClosed)
		require.Equal(t, command.Unknown, carried.Reply(t).Outcome)
	})
}

// docs/dev/rules.md rule 4: the undo may have been executed where it was sent before.
func TestAnUndoThatAClosedClusterDoesNotSendOnIsNotCalledUnsent(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		sh := clusterOf(n).shards[cl.Owner("foo").Addr()]
		require.NoError(t, n.Close())
		fresh, carried, moved := nodetest.Releasing("A", "foo"), nodetest.Releasing("B", "foo"), nodetest.Releasing("C", "foo")
		for _, c := range []*nodetest.Call{carried, moved} {
			require.True(t, c.MarkSent())
			c.MarkResend() // its connection ended
		}
		require.True(t, moved.MarkSent())
		taken, _ := sh.redirect(&moved.Command, redis.Error("MOVED 1 c-2:6379"))
		require.True(t, taken)
		clusterOf(n).redispatch(&carried.Command)
		clusterOf(n).redispatch(&fresh.Command)
		for _, c := range []*nodetest.Call{carried, moved} {
			r := c.Reply(t)
			require.Equal(t, command.Unknown, r.Outcome)
			require.ErrorIs(t, r.Err, pool.ErrClosed)
		}
		nodetest.RequireUnsent(t, fresh.Reply(t))
	})
}

// A health check waits for a master that cannot be reached.
func TestCommandsOfOneServerAreAnsweredWhenItIsRetired(t *testing.T) {
	var silent atomic.Value
	inCluster(t, func(c *pool.Config) {
		dial := c.Dial
		c.DialTimeout, c.HardTimeout = time.Minute, time.Second
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == silent.Load() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return dial(ctx, network, address)
		}
	}, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		silent.Store(b.Addr())
		cl.TakeSlot(a, b, true)
		time.Sleep(refreshEvery + time.Second)
		ping := nodetest.Pinging().On(n)
		synctest.Wait()
		require.True(t, ping.Pending())
		cl.TakeSlot(b, a, true)
		time.Sleep(2 * (refreshEvery + time.Second))
		synctest.Wait()
		require.Equal(t, 3, n.Stats().Masters)
		require.False(t, ping.Pending())
		require.ErrorIs(t, ping.Reply(t).Err, errNoMaster)
	})
}

// dropped has a Cluster drop a master that lost its slots to another one, as after the hard timeout. It returns
// the shard, which is not retired yet.
func dropped(t *testing.T, n *pool.Node, from, to *fakeredis.Master) *shard {
	t.Helper()
	cl := clusterOf(n)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	sh := cl.shards[from.Addr()]
	later := nodetest.Now(n).Add(cl.parts.Settings.HardTimeout)
	added, gone := cl.slots.mapped([]slotRange{{0, command.Slots - 1, to.Addr()}}, "", later)
	require.Empty(t, added)
	require.Equal(t, []string{from.Addr()}, gone)
	delete(cl.shards, from.Addr())
	return sh
}

// The undo would otherwise be sent behind its acquire to the master that is being dropped, and back, again
// and again.
func TestAnUndoDoesNotFollowItsAcquireToARetiredMaster(t *testing.T) {
	inCluster(t, patient, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		a, b := cl.Owner("foo"), cl.Add()
		heldBack(t, a)
		acquire := nodetest.Acquiring("A", nodetest.LongTTL, "foo").On(n)
		synctest.Wait()
		cl.TakeSlot(a, b, true)
		clusterOf(n).refresh.wake.Set()
		time.Sleep(refreshSeldom)
		synctest.Wait()
		m := dropped(t, n, a, b)
		undo := nodetest.Releasing("A", "foo").On(n)
		synctest.Wait()
		require.Equal(t, 1, nodetest.Count(b, "EVALSHA release"))
		require.Equal(t, command.Refused, undo.Reply(t).Outcome)
		require.True(t, acquire.Pending())
		m.Retire(handingBack(m), errNoMaster)
		require.Equal(t, command.Unknown, acquire.Reply(t).Outcome)
	})
}

// handingBack passes commands of a retired shard on.
func handingBack(m *shard) func(c *command.Command) {
	return func(c *command.Command) { handBack(m.router.(*clusterNode), c) }
}
