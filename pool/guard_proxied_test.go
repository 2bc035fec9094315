package pool

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/guard"
)

const otherID = "9999999999999999999999999999999999999999"

func proxied(c *Config) { c.Proxied = true }

// docs/dev/rules.md rule 15: behind a proxy that reconnects on its own, a connection does not end
// when the server does. So what it read at the dial may be out of date.
//
// Without Proxied the server is trusted to be the same one (the negative control).
func TestAServerThatChangesBehindItsProxyDoesNotVote(t *testing.T) {
	for what, turn := range map[string]func(m *fakeredis.Master){
		"another run":     anotherRun,
		"another history": anotherHistory,
	} {
		inBubble(t, proxied, func(t *testing.T, m *fakeredis.Master, n *Node) {
			admitted(t, m, n)
			require.Equal(t, command.Granted, acquiringUnder("A", "a").Outcome(t, n))
			turn(m)
			m.Set("ours", "A", time.Second)
			require.Equal(t, command.Unknown, extendingUnder("A", "ours").Outcome(t, n), what)
			require.Equal(t, command.Failed, inspectingUnder("ours").Outcome(t, n), what)
			requireQuarantined(t, acquiringUnder("B", "b").On(n).Reply(t), guardTTL)
			require.Equal(t, int64(1), n.Stats().Dials)
			require.Contains(t, m.Keys(), guard.Key)
			v, _ := m.Get(guard.Key)
			require.Contains(t, v, otherID, "by what the script read itself")
			time.Sleep(healthyEvery + guardTTL + time.Second) // the check started a run that this client saw
			require.Equal(t, command.Granted, acquiringUnder("B", "b").Outcome(t, n), what)
		})
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			admitted(t, m, n)
			turn(m)
			r := acquiringUnder("B", "b").On(n).Reply(t)
			require.Equal(t, command.Granted, r.Outcome, "%s: %v", what, r.Err)
		})
	}
	inBubble(t, proxied, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		m.SetInfo("role", "slave")
		require.Equal(t, command.Failed, acquiringUnder("B", "b").Outcome(t, n), "a replica")
		time.Sleep(time.Second)
		requireUnfit(t, acquiringUnder("B", "b").On(n).Reply(t), "is a replica")
	})
}

// Another master behind the same address has a marker of its own that is ok.
func TestAConnectionThatLeadsToAnotherMasterDoesNotVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := fakeredis.New("n1"), fakeredis.New("n1")
		defer one.Close()
		defer two.Close()
		var at atomic.Pointer[fakeredis.Master]
		at.Store(one)
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			return at.Load().Dial(ctx, network, address)
		}
		n := opened(t, one, func(c *Config) { c.Dial = dial })
		defer n.Close()
		admitted(t, one, n)
		other := opened(t, two, nil)
		admitted(t, two, other)
		require.NoError(t, other.Close())

		v, _ := one.Get(guard.Key)
		two.Set(guard.Key, v, 0) // a copy of its data, as on a replica
		at.Store(two)
		only(t, one).Drop()
		time.Sleep(100 * time.Millisecond)
		var q *QuarantineError
		require.ErrorAs(t, acquiringUnder("A", "k").On(n).Reply(t).Err, &q)
		v, _ = two.Get(guard.Key)
		require.Contains(t, v, two.RunID())
	})
}

// The reader, the writer, callers, timers and checks share the state of the guard.
func TestTheGuardUnderManyCallersAndFaults(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 60 {
					token := string(rune('a' + i))
					acquiringUnder(token, token).On(n).Reply(t)
					extendingUnder(token, token).On(n).Reply(t)
					pingingUnder().On(n).Reply(t)
					releasing(token, token).On(n).Reply(t)
					time.Sleep(time.Duration(100+7*i+j) * time.Millisecond)
				}
			})
		}
		all.Go(func() {
			for i := range 12 {
				time.Sleep(900 * time.Millisecond)
				switch i % 4 {
				case 0:
					m.FlushAll()
				case 1:
					_ = m.Restart(true)
				case 2:
					mark(m, "q1")
				case 3:
					m.FlushScripts()
				}
			}
		})
		all.Wait()
		time.Sleep(guardTTL + healthyEvery + healthyEvery/2)
		require.Equal(t, command.Granted, pingingUnder().Outcome(t, n))
	})
}
