package vote

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

var (
	granted = command.Reply{Outcome: command.Granted}
	refused = command.Reply{Outcome: command.Refused}
	failed  = command.Reply{Outcome: command.Failed, NotSent: true}
	unknown = command.Reply{}
	skipped = command.Reply{Outcome: command.Refused, NotSent: true}
	undone  = command.Reply{Undone: true}
)

// ballotsOf returns the ballots of n nodes, of which the first ones have answered.
func ballotsOf(n int, replies ...command.Reply) *Ballots {
	s := newBallots(make([]Ballot, n))
	for i, rep := range replies {
		s.record(i, rep, 0)
	}
	return &s
}

func TestARuleStatesHowManyVotesADecisionWaitsFor(t *testing.T) {
	for _, c := range []struct {
		rule                Rule
		won, refused, fault int // after how many answers of three
	}{
		{Earliest, 2, 2, 2},
		{LossAfterAll, 2, 3, 3},
		{FaultAfterAll, 2, 2, 3},
		{AfterAll, 3, 3, 3},
	} {
		for rep, want := range map[*command.Reply]int{&granted: c.won, &refused: c.refused, &failed: c.fault} {
			s, n := ballotsOf(3), 0
			for decided := false; !decided; n++ {
				s.record(n, *rep, 0)
				decided = s.decide(c.rule, nil)
			}
			require.Equal(t, want, n, "rule %d, %v", c.rule, rep.Outcome)
		}
	}
}

// A decision is made once, by the votes that were in time, whatever comes later. All orders of three answers are tried,
// with the end of the vote before each of them, and with a second answer of each node.
func TestNoLateAnswerChangesADecision(t *testing.T) {
	replies := []command.Reply{granted, refused, failed, unknown}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for kinds := range 4 * 4 * 4 {
			for ends := range 4 {
				s, grants, news := ballotsOf(3), 0, 0
				rep := []command.Reply{replies[kinds%4], replies[kinds/4%4], replies[kinds/16]}
				decide := func() {
					if s.decide(Earliest, nil) {
						news++
					}
				}
				for i, node := range order {
					if i == ends {
						s.giveUp(command.ErrTimeout, time.Second)
						decide()
					}
					late := s.record(node, rep[node], 0)
					if i < ends && rep[node].Outcome == command.Granted {
						grants++
					}
					require.Equal(t, i >= ends || news == 1, late)
					decide()
				}
				for _, node := range order {
					require.True(t, s.record(node, granted, 0))
					decide()
				}
				want := quorum.Lost
				if grants >= 2 {
					want = quorum.Won
				}
				require.Equal(t, want, s.decision, "order %v, kinds %d, ends %d", order, kinds, ends)
				require.Equal(t, 1, news)
			}
		}
	}
}

func TestEnoughEndsAVoteBeforeItsRuleDoes(t *testing.T) {
	s := ballotsOf(3, granted)
	require.False(t, s.decide(AfterAll, func(s *Ballots) bool { return s.ByNode[1].Replied }))
	require.True(t, s.decide(AfterAll, func(s *Ballots) bool { return s.ByNode[0].Replied }))
	require.Equal(t, quorum.Lost, s.decision)
}

func TestATieNeedsVotesOfBothKindsFromAQuorum(t *testing.T) {
	for _, c := range []struct {
		replies []command.Reply // of five nodes
		tied    bool
	}{
		{[]command.Reply{granted, refused}, false},
		{[]command.Reply{granted, refused, failed}, false},
		{[]command.Reply{granted, refused, granted}, true},
		{[]command.Reply{granted, refused, failed, granted}, true},
		{[]command.Reply{granted, granted}, false},
		{[]command.Reply{granted, refused, granted, granted}, false}, // won
		{[]command.Reply{refused, refused, granted, refused}, false}, // lost
	} {
		s := ballotsOf(5, c.replies...)
		s.decide(Earliest, nil)
		require.Equal(t, c.tied, s.tied(), "%v", c.replies)
	}
}

func TestNodesWithoutAnAnswerAreGivenUp(t *testing.T) {
	s := ballotsOf(3, granted)
	require.Equal(t, quorum.Nodes(0).With(1).With(2), s.giveUp(command.ErrTimeout, time.Second))
	require.False(t, s.ByNode[0].Failed())
	for _, b := range []*Ballot{&s.ByNode[1], &s.ByNode[2]} {
		require.True(t, b.Failed() && !b.Replied && b.Last == command.Unknown && b.Latency == time.Second)
		require.ErrorIs(t, b.Err, command.ErrTimeout)
	}
}

// Fences are those of grants that counted as votes: neither late grants nor other answers.
func TestOnlyGrantsThatWereVotesAreCounted(t *testing.T) {
	s := ballotsOf(5)
	for i, o := range []command.Outcome{command.Granted, command.Refused, command.Failed, command.Unknown, command.Granted} {
		if i == 3 {
			s.giveUp(command.ErrTimeout, time.Second)
		}
		s.record(i, command.Reply{Outcome: o, Fence: int64(i) + 1}, 0)
	}
	require.Equal(t, []int64{1, 0, 0, 0, 0}, s.AppendFences(nil))
	require.Equal(t, []command.Outcome{command.Unknown, command.Granted}, []command.Outcome{s.ByNode[4].Vote, s.ByNode[4].Last})
	require.Equal(t, 3, s.Need())
}

// A node may hold keys of an acquire unless it refused or was never sent the command.
func TestANodeThatRefusedOrWasSentNothingIsEmpty(t *testing.T) {
	require.Equal(t, quorum.Nodes(0).With(1).With(2), ballotsOf(4, granted, refused, failed, unknown).empty())
}

// Otherwise a release whose refusals are late would be reported as unconfirmed, although the lock was lost.
func TestARefusalCountsAlsoAfterTheVote(t *testing.T) {
	s := ballotsOf(3)
	s.giveUp(command.ErrTimeout, time.Second)
	require.False(t, s.RefusedByQuorum())
	s.record(0, refused, 0)
	require.False(t, s.RefusedByQuorum())
	s.record(1, refused, 0)
	require.True(t, s.RefusedByQuorum())
}

// A majority that holds nothing frees the name. A node that lost the token does not count.
func TestAnUndoIsConfirmedByAMajority(t *testing.T) {
	for _, c := range []struct {
		replies         []command.Reply
		free, confirmed bool
	}{
		{[]command.Reply{granted, granted, failed}, true, true},
		{[]command.Reply{granted, skipped, failed}, true, true},
		{[]command.Reply{granted, refused, failed}, false, true},
		{[]command.Reply{granted, undone, failed}, false, true},
		{[]command.Reply{granted, failed, failed}, false, false},
	} {
		s := ballotsOf(3, c.replies...)
		require.Equal(t, c.free, s.SurelyFree(), "%v", c.replies)
		require.Equal(t, c.confirmed, s.Confirmed(), "%v", c.replies)
	}
}
