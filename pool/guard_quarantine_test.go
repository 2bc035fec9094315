package pool

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/session"
)

// docs/dev/hazards.md H100: the node's clock is stepped forward, and the end of its quarantine with
// it.
func TestAClientThatSawARunBeginWaitsForItsOwnTimerAsWell(t *testing.T) {
	for what, begin := range map[string]func(m *fakeredis.Master){
		"an empty restart": func(m *fakeredis.Master) { _ = m.Restart(false) },
		"one with data":    func(m *fakeredis.Master) { _ = m.Restart(true) },
		"emptied":          func(m *fakeredis.Master) { m.FlushAll() },
	} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			admitted(t, m, n)
			begin(m)
			time.Sleep(100 * time.Millisecond) // it has dialled
			acquiringUnder("A", "k").On(n).Reply(t)
			synctest.Wait()
			require.Equal(t, 1, queriesOf(m), what)
			time.Sleep(time.Second)
			m.SetClock(time.Hour)
			for range 4 {
				var q *QuarantineError
				require.ErrorAs(t, acquiringUnder("A", "k").On(n).Reply(t).Err, &q, what)
				time.Sleep((guardTTL - 1100*time.Millisecond) / 4)
			}
			time.Sleep(200 * time.Millisecond)
			require.Equal(t, command.Granted, acquiringUnder("A", "k").Outcome(t, n), what)
		})
	}
}

// The same when the quarantine is another client's: the server differs from that of the connection before.
func TestAClientThatFindsAnotherServerWaitsForItsOwnTimerAsWell(t *testing.T) {
	restarted := func(t *testing.T, m *fakeredis.Master, meets func()) {
		m.Stop()
		time.Sleep(time.Second)
		require.NoError(t, m.Restart(true))
		meets()
	}
	promoted := func(t *testing.T, m *fakeredis.Master, meets func()) {
		mine := only(t, m)
		anotherHistory(m)
		meets()
		mine.Drop()
	}
	for what, begin := range map[string]func(t *testing.T, m *fakeredis.Master, meets func()){"restarted": restarted, "promoted": promoted} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			admitted(t, m, n)
			begin(t, m, func() {
				stranger := opened(t, m, nil)
				requireQuarantined(t, acquiringUnder("B", "k").On(stranger).Reply(t), guardTTL)
				require.NoError(t, stranger.Close())
			})
			m.SetClock(time.Hour)
			time.Sleep(time.Second) // it has dialled
			for range 3 {
				var q *QuarantineError
				require.ErrorAs(t, acquiringUnder("A", "k").On(n).Reply(t).Err, &q, what)
				time.Sleep(6 * time.Second)
			}
			time.Sleep(2 * time.Second)
			require.Equal(t, command.Granted, acquiringUnder("A", "k").Outcome(t, n), what)
		})
	}
	// The negative control: a client that never saw the earlier run uses the node's clock.
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		admitted(t, m, n)
		require.NoError(t, n.Close())
		require.NoError(t, m.Restart(true))
		first := opened(t, m, nil)
		acquiringUnder("A", "k").On(first).Reply(t)
		require.NoError(t, first.Close())
		m.SetClock(time.Hour)
		second := opened(t, m, nil)
		defer second.Close()
		require.Equal(t, command.Granted, acquiringUnder("A", "k").Outcome(t, second))
	})
}

// A quarantine that is longer than the maximum was written before the clock was set back.
func TestAQuarantineBeginsAgainWhenTheNodesClockWasSetBack(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.SetClock(time.Hour)
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		time.Sleep(guardTTL - 8*time.Second)
		m.SetClock(0)
		time.Sleep(8*time.Second + 2*time.Millisecond)
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL-2*time.Millisecond) // since the check
		time.Sleep(guardTTL)
		synctest.Wait()
		require.Equal(t, command.Granted, acquiringUnder("A", "k").Outcome(t, n))
	})
}

// timed runs f on a node under the guard whose timers are counted, in its first quarantine.
func timed(t *testing.T, f func(t *testing.T, m *fakeredis.Master, n *Node, c *tallying)) {
	t.Helper()
	c := &tallying{}
	inBubble(t, func(cfg *Config) { c.Clock = cfg.Clock; cfg.Clock = c }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		requireQuarantined(t, acquiringUnder("A", "k").On(n).Reply(t), guardTTL)
		f(t, m, n, c)
	})
}

func TestTheTimerOfAQuarantineEndsWithItsConnectionAndItsNode(t *testing.T) {
	timed(t, func(t *testing.T, _ *fakeredis.Master, n *Node, c *tallying) {
		require.Positive(t, c.waiting.Load())
		require.NoError(t, n.Close())
		require.Zero(t, c.waiting.Load())
	})
	timed(t, func(t *testing.T, m *fakeredis.Master, n *Node, c *tallying) {
		m.Stop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, c.waiting.Load(), int64(1), "the pause before the next dial")
		require.NoError(t, n.Close())
		require.Zero(t, c.waiting.Load())
	})
	timed(t, func(t *testing.T, m *fakeredis.Master, n *Node, c *tallying) {
		m.Freeze() // with the verification under way
		time.Sleep(guardTTL + 3*time.Millisecond)
		require.NoError(t, n.Close())
		require.Zero(t, c.waiting.Load())
	})
}

// A server may return a wrong remaining time of a quarantine. It is clamped.
func TestAQuarantineOfNoTimeIsQueriedWithPauses(t *testing.T) {
	for _, left := range []string{"-5", "0", "1", "9223372036854775807"} {
		inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
			time.Sleep(time.Second)
			var asked atomic.Int64
			m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
				if cmd != "EVALSHA" || len(args) == 0 || args[0] != verifyHash(t) {
					return "", false
				}
				asked.Add(1)
				return "*3\r\n$11\r\nquarantined\r\n:" + left + "\r\n:0\r\n", true
			})
			r := acquiringUnder("A", "k").On(n).Reply(t)
			var q *QuarantineError
			require.ErrorAs(t, r.Err, &q)
			require.GreaterOrEqual(t, q.Remaining, time.Duration(0))
			require.LessOrEqual(t, q.Remaining, guardTTL)
			require.Equal(t, len(left) > 3, q.Remaining > time.Second, left)
			time.Sleep(10 * time.Second)
			require.LessOrEqual(t, asked.Load(), int64(10*time.Second/session.MinAskPause+2), left)
		})
	}
}

// verifyHash returns the hash of the script that verifies the marker.
func verifyHash(t *testing.T) string {
	t.Helper()
	for _, s := range command.Scripts() {
		if s.Name == "verify" {
			return s.Hash
		}
	}
	t.Fatal("no such script")
	return ""
}
