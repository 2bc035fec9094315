package pool

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
	"github.com/quorumlock/go-redlock/internal/session"
)

// queriesOf returns how often a master was sent the verification since ForgetLog.
func queriesOf(m *fakeredis.Master) int { return count(m, "EVALSHA verify") + count(m, "EVAL verify") }

// mark sets the state in a master's marker.
func mark(m *fakeredis.Master, state string) {
	v, _ := m.Get(guard.Key)
	m.Set(guard.Key, v[:strings.LastIndexByte(v, '|')+1]+state, 0)
}

// admitted brings a node's first quarantine to its end.
func admitted(t *testing.T, m *fakeredis.Master, n *Node) {
	t.Helper()
	requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
	time.Sleep(guardTTL + 2*time.Millisecond)
	synctest.Wait()
	require.Equal(t, command.Granted, pingingUnder().Outcome(t, n))
	m.ForgetLog()
}

// requireQuarantined asserts that a node does not vote, for how long at the most.
func requireQuarantined(t *testing.T, r command.Reply, left time.Duration) {
	t.Helper()
	var q *QuarantineError
	require.ErrorAs(t, r.Err, &q)
	require.Equal(t, command.Failed, r.Outcome)
	require.Equal(t, left, q.Remaining)
}

func TestAConnectionVerifiesItsMarkerOnceBeforeTheFirstGuardedAcquire(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.ForgetLog()
		writes := n.Stats().Writes
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		require.Equal(t, []string{"EVALSHA verify", "EVALSHA acquire+guard"}, quiet(m))
		synctest.Wait()
		require.Equal(t, writes+1, n.Stats().Writes, "in one flush")
		for range 5 {
			acquiringUnder("A", "k").On(n).Reply(t)
		}
		require.Equal(t, 1, queriesOf(m))
	})
	for what, first := range map[string]func() *call{
		"a claim that is resumed": func() *call { return inspectingUnder("k") },
		"a repair": func() *call {
			return under("A", func(r *command.Request, t *command.LockArgs) { command.NewRepair(r, t, time.Second, guardTTL, 0) }, "k")
		},
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			synctest.Wait()
			m.ForgetLog()
			requireQuarantined(t, first().On(n).Reply(t), guardTTL)
			require.Equal(t, 1, queriesOf(m), what)
		})
	}
}

// The first command after amnesia is answered with the length of the quarantine, and so are the
// commands in flight with it. Each is answered even if the verification is not.
func TestTheFirstCommandBehindAnAmnesiaSaysWhatHasBecomeOfTheNode(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.FlushAll()
		a, b := acquiringUnder("A", "k").On(n), acquiringUnder("B", "k").On(n)
		requireQuarantined(t, a.Reply(t), guardTTL)
		requireQuarantined(t, b.Reply(t), guardTTL)
		require.Equal(t, 1, queriesOf(m))
	})
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.FlushAll()
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			if strings.HasPrefix(cmd, "EVAL") && len(args) > 1 && args[1] == "1" { // the verification's
				go m.Stop()
			}
			return "", false
		})
		r := acquiringUnder("A", "k").On(n).Reply(t)
		require.NotEqual(t, command.Granted, r.Outcome)
		require.Error(t, r.Err)
	})
}

// docs/dev/rules.md rules 16 and 17: a node that was only read can still be admitted.
func TestInspectAndExtendVerifyNoMarker(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.ForgetLog()
		for _, c := range []*call{
			pingingUnder(), extendingUnder("A", "k"), inspecting("k"), pinging(),
			acquiring("B", time.Second, "b"), releasing("B", "b"), newCall(command.NewInfo),
			under("A", func(r *command.Request, t *command.LockArgs) { t.SetCounters(false); command.NewConfirm(r, t, 7) }, "k"),
		} {
			r := c.On(n).Reply(t)
			if c.Req.Op == command.Ping && c.Req.Guarded {
				require.Equal(t, command.Failed, r.Outcome)
				require.ErrorContains(t, r.Err, "is not admitted by the restart guard")
			}
		}
		time.Sleep(time.Minute)
		require.Zero(t, queriesOf(m))
		require.NotContains(t, m.Keys(), guard.Key)
	})
}

func TestAnEmptiedNodeIsQueriedOnceForManyCommands(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.FlushAll()
		calls := make([]*call, 64)
		for i := range calls {
			calls[i] = acquiringUnder("A", "k").On(n)
		}
		for _, c := range calls {
			require.Equal(t, command.Failed, c.Reply(t).Outcome)
		}
		synctest.Wait()
		require.Equal(t, 1, queriesOf(m))
		require.Equal(t, int64(1), n.Stats().Dials)
		for range 10 {
			requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		}
		require.Equal(t, 1, queriesOf(m))
		time.Sleep(guardTTL - time.Millisecond)
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), time.Millisecond)
		time.Sleep(2 * session.MinAskPause)
		require.Equal(t, command.Granted, acquiringUnder("A", "k").Outcome(t, n), "by itself, and without a dial")
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// An extension finds an emptied node as an acquisition does. It executes where the key exists, and
// does not count.
func TestAnExtensionOnANodeWithoutItsMarkerIsDoneAndDoesNotCount(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.Del(guard.Key)
		m.Set("k", "A", 100*time.Millisecond)
		r := extendingUnder("A", "k").On(n).Reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		require.Equal(t, time.Second, m.TTL("k"))
		synctest.Wait()
		require.Equal(t, 1, queriesOf(m))
		r = extendingUnder("A", "k").On(n).Reply(t)
		require.Equal(t, command.Unknown, r.Outcome)
		var q *QuarantineError
		require.ErrorAs(t, r.Err, &q)
		require.Equal(t, command.Refused, extendingUnder("A", "gone").Outcome(t, n), "what is not ours is not ours")
	})
}

// A verification that failed is repeated, also if no acquisition follows: a lock that is extended
// needs the result.
func TestANodeThatCouldNotVerifyItsMarkerIsAskedAgain(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		time.Sleep(guardTTL - time.Second)
		m.FailWith("EVALSHA", "BUSY Redis is busy running a script.")
		time.Sleep(2 * time.Second)
		m.FailWith("EVALSHA", "")
		require.Equal(t, command.Failed, pingingUnder().Outcome(t, n))
		time.Sleep(healthyEvery)
		require.Equal(t, command.Granted, pingingUnder().Outcome(t, n))
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// The verification may have the result that a waiting command can be granted.
func TestOnANewConnectionTheQuestionGoesInFrontOfWhatWaitedForIt(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		time.Sleep(guardTTL - time.Millisecond)
		m.SetDelay(10 * time.Millisecond)
		m.ForgetLog()
		only(t, m).Drop()
		synctest.Wait()
		r := acquiringUnder("A", "k").On(n).Reply(t) // its own timer has ended when the dial is finished
		require.Equal(t, command.Granted, r.Outcome, "%v", r.Err)
		require.Equal(t, []string{"EVALSHA verify", "EVALSHA acquire+guard"}, quiet(m)[len(quiet(m))-2:])
		require.Equal(t, 1, queriesOf(m))
	})
}
