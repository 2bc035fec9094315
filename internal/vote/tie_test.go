package vote_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// A tied vote ends soon if nothing is known of the missing node, and waits for the round trips of a
// node that was measured.
func TestATiedVoteEndsByTheRoundTripsOfTheMissingNode(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		tie := func() time.Duration {
			r := acquire(g, &vote.Events{}, vote.Earliest)
			r.Patient = true
			nodes[0].Answer(granted)
			nodes[1].Answer(refused)
			r.Wait(nil)
			r.View(func(s *vote.Ballots) { require.ErrorIs(t, s.ByNode[2].Err, vote.ErrNotAwaited) })
			return g.Clock.Now().Sub(r.Start)
		}
		require.Equal(t, vote.TieTimeout(0), tie())
		require.Zero(t, g.Patience(2))
		acquire(g, &vote.Events{}, vote.Earliest)
		time.Sleep(50 * time.Millisecond)
		nodes[2].Answer(granted)
		require.Equal(t, 100*time.Millisecond, g.Patience(2))
		require.Equal(t, 100*time.Millisecond, tie())
		require.Zero(t, g.Patience(2), "it did not answer in twice its round trip")
		require.Equal(t, vote.TieTimeout(0), tie())
	})
}

// Otherwise attempts that overlap would forget again and again how far away a node is.
func TestATieThatEndsEarlyMakesNoMeasuredNodeSilent(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		tie := func() (r *vote.Round, missing *command.Command) {
			r = acquire(g, &vote.Events{}, vote.Earliest)
			nodes[0].Answer(granted)
			nodes[1].Answer(refused)
			return r, nodes[2].Command
		}
		first, missing := tie()
		first.Wait(nil)
		time.Sleep(35 * time.Millisecond)
		second, _ := tie() // nothing is known of the third node
		time.Sleep(5 * time.Millisecond)
		missing.Answer(granted)
		second.Wait(nil)
		require.Equal(t, vote.TieTimeout(0), g.Clock.Now().Sub(second.Start))
		require.Equal(t, 100*time.Millisecond, g.Patience(2))
	})
}

// Only an acquire is tied: other votes wait for the node timeout.
func TestATieOfAnotherRequestWaitsForTheNodeTimeout(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := g.New(&vote.Events{}, nil, nil)
		command.NewPing(&r.Request)
		r.Start = g.Clock.Now()
		r.Arm(timeout)
		r.Send(nil).Settle()
		nodes[0].Answer(granted)
		nodes[1].Answer(refused)
		r.Wait(nil)
		require.Equal(t, timeout, g.Clock.Now().Sub(r.Start))
		r.View(func(s *vote.Ballots) { require.ErrorIs(t, s.ByNode[2].Err, command.ErrTimeout) })
	})
}
