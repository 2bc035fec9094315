package vote_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Fences are those of grants that counted as votes: neither late grants nor other answers.
func TestOnlyGrantsThatWereVotesAreCounted(t *testing.T) {
	inGroup(t, 5, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		nodes[0].Answer(command.Reply{Outcome: command.Granted, Fence: 1})
		nodes[1].Answer(command.Reply{Outcome: command.Refused, Fence: 2})
		nodes[2].Answer(command.Reply{Outcome: command.Failed, Fence: 3})
		time.Sleep(2 * timeout)
		synctest.Wait()
		nodes[3].Answer(command.Reply{Outcome: command.Unknown, Fence: 4})
		nodes[4].Answer(command.Reply{Outcome: command.Granted, Fence: 5})
		require.Equal(t, []int64{1, 0, 0, 0, 0}, r.AppendFences(nil))
		require.True(t, r.Lost())
		require.False(t, r.Won())
		r.View(func(s vote.Results) {
			require.True(t, s.Ballots[4].AnsweredLate)
			require.Equal(t, 3, s.Need)
		})
	})
}

// A node may hold keys of an acquire unless it refused or was never sent the command.
func TestNodesThatHoldNoKeysAreKnownOnceAllHaveAnswered(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		nodes[0].Answer(granted)
		nodes[1].Answer(refused)
		_, all := r.EmptyNodes()
		require.False(t, all)
		require.False(t, r.LeftNothing(0))
		require.True(t, r.LeftNothing(1))
		require.True(t, nodes[2].MarkSent())
		require.False(t, r.LeftNothing(2), "it was sent and may be executed")
		nodes[2].Answer(command.Reply{Outcome: command.Unknown})
		empty, all := r.EmptyNodes()
		require.True(t, all)
		require.Equal(t, quorum.Nodes(0).With(1), empty)
	})
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		r := acquire(g, &vote.Events{}, vote.Earliest)
		require.True(t, r.LeftNothing(0), "it was cancelled unsent")
		require.False(t, nodes[0].MarkSent())
		for _, n := range nodes {
			n.Answer(granted)
		}
		empty, all := r.EmptyNodes()
		require.True(t, all)
		require.Zero(t, empty)
	})
}

// A majority that holds nothing frees the name. A node that lost the token does not count.
func TestAnUndoIsConfirmedByAMajority(t *testing.T) {
	lost := command.Reply{Outcome: command.Refused}
	skipped := command.Reply{Outcome: command.Refused, NotSent: true}
	undone := command.Reply{Outcome: command.Failed, Undone: true}
	for _, c := range []struct {
		replies         []command.Reply
		free, confirmed bool
	}{
		{[]command.Reply{granted, granted, failed}, true, true},
		{[]command.Reply{granted, skipped, failed}, true, true},
		{[]command.Reply{granted, lost, failed}, false, true},
		{[]command.Reply{granted, undone, failed}, false, true},
		{[]command.Reply{granted, failed, failed}, false, false},
	} {
		inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
			r := acquire(g, &vote.Events{}, vote.FaultAfterAll)
			for i, rep := range c.replies {
				nodes[i].Answer(rep)
			}
			require.Equal(t, c.free, r.SurelyFree(), "%v", c.replies)
			require.Equal(t, c.confirmed, r.Confirmed(), "%v", c.replies)
		})
	}
}
