package pool

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A release and the next waiter's acquire go out in one write, in this order.
func TestTwoCommandsThatAreSubmittedTogetherShareOneWrite(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, acquiring("one", longTTL, "a").On(n).Reply(t).Outcome)
		require.Equal(t, command.Refused, releasing("other", "a").On(n).Reply(t).Outcome) // its script is loaded from now on
		before := n.Stats()
		for range 50 {
			first, second := releasing("one", "a"), acquiring("one", longTTL, "a")
			require.NoError(t, voterOf(n).Submit(&first.Command, &second.Command))
			require.Equal(t, command.Granted, first.Reply(t).Outcome)
			require.Equal(t, command.Granted, second.Reply(t).Outcome)
		}
		require.Equal(t, int64(100), n.Stats().Written-before.Written)
		require.Equal(t, int64(50), n.Stats().Writes-before.Writes)
	})
}

// Commands of many callers go out together, because a system call costs more than all else. The
// callers that wait for the replies of one write are answered together, and so submit together.
func TestCommandsOfManyCallersShareWrites(t *testing.T) {
	const callers, each = 64, 50
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Refused, releasing("A", "k").Outcome(t, n)) // its script is loaded from now on
		m.SetDelay(time.Millisecond)
		before, repliesBefore := n.Stats(), answers(n)
		var g sync.WaitGroup
		for i := range callers {
			g.Go(func() {
				key := fmt.Sprint("k", i)
				for j := range each {
					token := fmt.Sprint(i, "-", j)
					if r := <-acquiring(token, longTTL, key).On(n).Answers; r.Outcome != command.Granted {
						t.Error(r)
					}
					if r := <-releasing(token, key).On(n).Answers; r.Outcome != command.Granted {
						t.Error(r)
					}
				}
			})
		}
		g.Wait()
		after := n.Stats()
		require.Equal(t, int64(2*callers*each), answers(n)-repliesBefore)
		perWrite := float64(after.Written-before.Written) / float64(after.Writes-before.Writes)
		t.Logf("%.1f commands per write", perWrite)
		require.Greater(t, perWrite, 3.0)
	})
}

// frozenAt answers no script until mute is closed.
func frozenAt(mute <-chan struct{}) fake {
	return func(name string, args []string) (string, error) {
		if name == "EVALSHA" {
			<-mute
		}
		return wellBehaved(name, args)
	}
}

// A command that waits behind a full socket can still be cancelled.
func TestWhatIsBehindAFullSocketIsNotSent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		stuff(n)
		var calls []*call
		for range 10 {
			calls = append(calls, pinging().On(n))
		}
		synctest.Wait()
		for _, c := range calls {
			require.True(t, c.Cancel())
		}
	})
}

func TestStatsCountWhatHappened(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		synctest.Wait()
		require.Equal(t, Stats{Connected: 1, Dials: 1}, n.Stats())
		require.Equal(t, command.Granted, acquiring("A", longTTL, "k").Outcome(t, n))
		require.Equal(t, Stats{Connected: 1, Dials: 1, Written: 1, Writes: 1}, n.Stats())
		require.Equal(t, int64(1), answers(n))

		m.Freeze()
		stuck := stuff(n)
		for range 3 {
			pinging().On(n)
		}
		synctest.Wait()
		s := n.Stats()
		require.Equal(t, 3, s.Queued)
		require.Equal(t, int64(1), answers(n))
		m.Unfreeze()
		stuck.Reply(t)
		synctest.Wait()
		require.Equal(t, int64(6), answers(n), "also to the loading of a script")
		require.Equal(t, int64(6), n.Stats().Written)

		m.Stop()
		time.Sleep(time.Second)
		s = n.Stats()
		require.Zero(t, s.Connected)
		require.Equal(t, s.Dials-1, s.DialFailures)
		require.Positive(t, s.DialFailures)
	})
}
