package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

// Nodes outlive the Lockers that were made over them. A node sends no guard commands for a Locker
// that has ended, because they would write a marker that was deleted on purpose.
func TestANodeSetThatHasEndedIsForgotten(t *testing.T) {
	for _, again := range []bool{false, true} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			f := guardedNodes()
			admitted(t, m, n, f)
			f.End()
			m.Del(guard.Key)
			if again {
				only(t, m).Drop()
			}
			time.Sleep(time.Minute)
			require.Zero(t, queriesOf(m))
			require.NotContains(t, m.Keys(), guard.Key)
			require.Empty(t, n.histories.nodeSets())
			require.Empty(t, n.pipeline.conn.registered)
			require.Equal(t, command.Granted, acquiring("B", time.Second, "k").outcome(t, n))
		})
	}
}

// Two nodes that refuse decide an attempt, and the third one's acquire is cancelled. The third
// node's quarantine must not wait for an attempt that needs it.
func TestAMarkerIsVerifiedAlsoIfTheCommandWasCancelled(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		c := acquiringUnder(f, "A", "k")
		require.True(t, c.Cancel()) // before the writer takes it from the queue
		c.on(n)
		requireUnsent(t, c.reply(t))
		synctest.Wait()
		require.Equal(t, 1, queriesOf(m))
		require.Contains(t, m.Keys(), guard.Key)
	})
}

// A node of several Lockers would otherwise vote for the second one before its marker is known, and its quarantine would begin late.
func TestANewConnectionVerifiesTheMarkerForEachNodeSet(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for range 3 {
			f := guardedNodes()
			acquiringUnder(f, "A", "k").on(n).reply(t)
		}
		m.ForgetLog()
		only(t, m).Drop()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 3, queriesOf(m))
	})
}

// An emptied server answers INFO as before, and its quarantine would begin only with the second Locker's next lock.
func TestAHealthCheckVerifiesTheMarkerForEachNodeSet(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		for range 3 {
			f := guardedNodes()
			acquiringUnder(f, "A", "k").on(n).reply(t)
		}
		time.Sleep(guardTTL + healthyEvery + healthyEvery/2) // between two checks
		m.ForgetLog()
		time.Sleep(healthyEvery)
		require.Equal(t, 3, queriesOf(m))
	})
}

// The node sends nothing if the Locker of the cancelled command has ended.
func TestACancelledCommandVerifiesNothingForANodeSetThatHasEnded(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		c := acquiringUnder(f, "A", "k")
		require.True(t, c.Cancel()) // before the writer takes it from the queue
		f.End()
		c.on(n)
		requireUnsent(t, c.reply(t))
		synctest.Wait()
		require.Zero(t, queriesOf(m))
		require.Empty(t, m.Keys())
	})
}

func TestTheTimerOfANodeSetThatHasEndedSendsNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		time.Sleep(9 * time.Second) // the timer is due between two checks
		requireQuarantined(t, acquiringUnder(f, "A", "k").on(n).reply(t), guardTTL)
		time.Sleep(guardTTL - healthyEvery/2)
		f.End()
		m.ForgetLog()
		time.Sleep(time.Minute)
		require.Zero(t, queriesOf(m))
	})
}

// docs/dev/rules.md rule 16: a marker of another server than the one dialled means that the
// connection's facts are old. The node must redial, and not wait for the next check.
func TestAConnectionWhoseFactsAreOldIsDialledAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		admitted(t, m, n, f)
		m.SetInfo("run_id", otherID)
		m.Set(guard.Key, f.Guard.Marker(otherID, noHistory, "n1"), 0)
		require.Equal(t, command.Failed, acquiringUnder(f, "A", "k").outcome(t, n))
		time.Sleep(time.Second)
		require.Equal(t, int64(2), n.Stats().Dials)
		require.Equal(t, command.Granted, acquiringUnder(f, "A", "k").outcome(t, n))
	})
}

// docs/dev/rules.md rule 16: the server is not a master, so nothing is written. It is known to be a
// replica, and WithUnsafeNodes allows it, so it must not be redialled for each command.
func TestAReplicaIsNoVoterWhateverIsExcepted(t *testing.T) {
	prepare := func(m *fakeredis.Master) { m.SetInfo("role", "slave") }
	onMaster(t, prepare, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := command.NewNodeSet(true)
		f.Guard = guardedNodes().Guard
		for range 20 {
			r := acquiringUnder(f, "A", "k").on(n).reply(t)
			require.Equal(t, command.Failed, r.Outcome)
			require.ErrorIs(t, r.Err, command.ErrUnfit)
			require.ErrorContains(t, r.Err, "is a replica")
			time.Sleep(time.Second)
		}
		require.Empty(t, m.Keys())
		require.Equal(t, int64(1), n.Stats().Dials)
	})
	// A server that became a replica under an open connection is redialled once.
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		admitted(t, m, n, f)
		m.SetInfo("role", "slave")
		m.Del(guard.Key)
		acquiringUnder(f, "A", "k").on(n).reply(t)
		time.Sleep(time.Second)
		r := acquiringUnder(f, "A", "k").on(n).reply(t)
		requireUnfit(t, r, "is a replica")
		require.Equal(t, int64(2), n.Stats().Dials)
		require.Empty(t, m.Keys())
	})
}

// A Locker has ended, and its last command is answered after the health check that drops its guard.
func TestACommandOfANodeSetThatHasEndedIsAnsweredAfterTheCheck(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		admitted(t, m, n, f)
		m.Del(guard.Key)
		m.SetDelay(3 * time.Second)
		m.ForgetLog()
		for count(m, "INFO") == 0 { // a check is under way
			time.Sleep(time.Second)
		}
		c := acquiringUnder(f, "B", "k").on(n)
		f.End()
		require.Equal(t, command.Failed, c.reply(t).Outcome)
	})
}

// A repaired key would otherwise take the place of a lock that the node has forgotten (docs/dev/hazards.md H115).
func TestARepairWithAFenceCreatesNothingWithoutTheMarker(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guardedNodes()
		admitted(t, m, n, f)
		m.Del(guard.Key)
		c := under(f, "A", func(r *command.Request, args *command.LockArgs) {
			args.SetCounters(false)
			command.NewRepair(r, args, time.Second, guardTTL, 7)
		}, "k")
		require.Equal(t, command.Failed, c.outcome(t, n))
		require.NotContains(t, m.Keys(), "k")
	})
}
