package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/server"
)

// Nothing is asked for the answer: the state of the connections says it.
func TestANodeSaysWhyItDoesNotVote(t *testing.T) {
	for what, c := range map[string]struct {
		disturb func(m *fakeredis.Master)
		heal    func(m *fakeredis.Master)
		err     error  // nil: any
		text    string // of the error
	}{
		"a replica": {
			disturb: func(m *fakeredis.Master) { m.SetInfo("role", "slave") },
			heal:    func(m *fakeredis.Master) { m.SetInfo("role", "") }, err: command.ErrUnfit,
		},
		"failed checks": {
			disturb: func(m *fakeredis.Master) { m.FailWith("INFO", "BUSY a script") },
			heal:    func(m *fakeredis.Master) { m.FailWith("INFO", "") }, err: command.ErrUnfit,
		},
		"a server that is down": {
			disturb: (*fakeredis.Master).Stop,
			heal:    func(m *fakeredis.Master) { _ = m.Restart(true) }, text: "no connection",
		},
		"a frozen server": {disturb: (*fakeredis.Master).Freeze, heal: (*fakeredis.Master).Unfreeze},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				synctest.Wait()
				require.NoError(t, voterOf(n).WhyNotVoting())
				c.disturb(m)
				time.Sleep(30 * time.Second)
				m.ForgetLog()
				err := voterOf(n).WhyNotVoting()
				require.Error(t, err)
				if c.err != nil {
					require.ErrorIs(t, err, c.err)
				}
				require.ErrorContains(t, err, c.text)
				c.heal(m)
				time.Sleep(30 * time.Second)
				require.NoError(t, voterOf(n).WhyNotVoting())
			})
		})
	}
}

func TestANodeThatIsExemptVotesThoughItsServerIsUnfit(t *testing.T) {
	replica := func(m *fakeredis.Master) { m.SetInfo("role", "slave") }
	onMaster(t, replica, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		synctest.Wait()
		require.ErrorIs(t, voterOf(n).WhyNotVoting(), command.ErrUnfit)
		except(n, true)
		require.NoError(t, voterOf(n).WhyNotVoting())
	})
}

func TestANodeThatConnectsDoesNotVoteYetAndAClosedOneNoMore(t *testing.T) {
	onMaster(t, (*fakeredis.Master).Freeze, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		require.ErrorIs(t, voterOf(n).WhyNotVoting(), server.ErrConnecting)
		m.Unfreeze()
		synctest.Wait()
		require.NoError(t, voterOf(n).WhyNotVoting())
		require.NoError(t, n.Close())
		require.ErrorIs(t, voterOf(n).WhyNotVoting(), ErrClosed)
	})
}

// INFO does not show that a server refuses writes.
func TestAnAcquireThatWasAnsweredByAnErrorCountsUntilTheNextVote(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		m.FailWith("SET", "OOM command not allowed")
		require.Equal(t, command.Failed, acquiring("A", longTTL, "k").Outcome(t, n))
		time.Sleep(time.Minute) // checks succeed
		require.ErrorContains(t, voterOf(n).WhyNotVoting(), "OOM")
		m.FailWith("SET", "")
		require.Equal(t, command.Granted, acquiring("B", longTTL, "k").Outcome(t, n))
		require.NoError(t, voterOf(n).WhyNotVoting())
		require.Equal(t, command.Refused, acquiring("C", longTTL, "k").Outcome(t, n))
		require.NoError(t, voterOf(n).WhyNotVoting(), "a refusal is a vote")

		m.FailWith("SET", "OOM command not allowed")
		require.Equal(t, command.Failed, acquiring("D", longTTL, "k").Outcome(t, n))
		m.FailWith("SET", "")
		m.Stop()
		require.NoError(t, m.Restart(true))
		time.Sleep(time.Minute)
		require.NoError(t, voterOf(n).WhyNotVoting(), "another connection knows nothing of it")
	})
}
