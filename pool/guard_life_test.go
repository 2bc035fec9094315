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

// Two nodes that refuse decide an attempt, and the third one's acquire is cancelled. The third
// node's quarantine must not wait for an attempt that needs it.
func TestAMarkerIsVerifiedAlsoIfTheCommandWasCancelled(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		c := acquiringUnder("A", "k")
		require.True(t, c.Cancel()) // before the writer takes it from the queue
		c.On(n)
		requireUnsent(t, c.Reply(t))
		synctest.Wait()
		require.Equal(t, 1, queriesOf(m))
		require.Contains(t, m.Keys(), guard.Key)
	})
}

// The node would otherwise vote again before its marker is known, and its quarantine would begin late.
func TestANewConnectionVerifiesTheMarker(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		acquiringUnder("A", "k").On(n).Reply(t)
		m.ForgetLog()
		only(t, m).Drop()
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, 1, queriesOf(m))
	})
}

// An emptied server answers INFO as before, and its quarantine would begin only with the next lock.
func TestAHealthCheckVerifiesTheMarker(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		acquiringUnder("A", "k").On(n).Reply(t)
		time.Sleep(guardTTL + healthyEvery + healthyEvery/2) // between two checks
		m.ForgetLog()
		time.Sleep(healthyEvery)
		require.Equal(t, 1, queriesOf(m))
	})
}

// docs/dev/rules.md rule 16: a marker of another server than the one dialled means that the
// connection's facts are old. The node must redial, and not wait for the next check.
func TestAConnectionWhoseFactsAreOldIsDialledAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		f := guarded(n)
		admitted(t, m, n)
		m.SetInfo("run_id", otherID)
		m.Set(guard.Key, f.Marker(otherID, noHistory, "n1"), 0)
		require.Equal(t, command.Failed, acquiringUnder("A", "k").Outcome(t, n))
		time.Sleep(time.Second)
		require.Equal(t, int64(2), n.Stats().Dials)
		require.Equal(t, command.Granted, acquiringUnder("A", "k").Outcome(t, n))
	})
}

// docs/dev/rules.md rule 16: the server is not a master, so nothing is written. It is known to be a
// replica, and WithUnsafeNodes allows it, so it must not be redialled for each command.
func TestAReplicaIsNoVoterWhateverIsExcepted(t *testing.T) {
	prepare := func(m *fakeredis.Master) { m.SetInfo("role", "slave") }
	onMaster(t, prepare, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		except(n, true)
		for range 20 {
			r := acquiringUnder("A", "k").On(n).Reply(t)
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
		admitted(t, m, n)
		m.SetInfo("role", "slave")
		m.Del(guard.Key)
		acquiringUnder("A", "k").On(n).Reply(t)
		time.Sleep(time.Second)
		r := acquiringUnder("A", "k").On(n).Reply(t)
		requireUnfit(t, r, "is a replica")
		require.Equal(t, int64(2), n.Stats().Dials)
		require.Empty(t, m.Keys())
	})
}

// A repaired key would otherwise take the place of a lock that the node has forgotten (docs/dev/hazards.md H115).
func TestARepairWithAFenceCreatesNothingWithoutTheMarker(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.Del(guard.Key)
		c := under("A", func(r *command.Request, args *command.LockArgs) {
			args.SetCounters(false)
			command.NewRepair(r, args, time.Second, guardTTL, 7)
		}, "k")
		require.Equal(t, command.Failed, c.Outcome(t, n))
		require.NotContains(t, m.Keys(), "k")
	})
}
