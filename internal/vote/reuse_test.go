package vote_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// A round is reused after its owner and the last final answer have dropped it, in either order.
func TestARoundIsEmptiedByItsLastUser(t *testing.T) {
	for _, first := range []bool{false, true} {
		inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
			r := acquire(g, &vote.Events{}, vote.Earliest)
			r.Owner = t
			if first {
				r.Unref()
			}
			for _, n := range nodes {
				require.NotZero(t, r.Users())
				require.Equal(t, t, r.Owner)
				n.Answer(granted)
			}
			if !first {
				require.Equal(t, 1, r.Users())
				r.Unref()
			}
			require.Zero(t, r.Users())
			require.Nil(t, r.Owner)
			require.Empty(t, r.Woken(), "no wake-up is left for the next owner")
		})
	}
}

// A node may still use a command that it answered otherwise than by a plain grant.
func TestAnAnswerThatIsNotFinalKeepsTheRound(t *testing.T) {
	for what, answer := range map[string]func(n *node){
		"refused":                  func(n *node) { n.Answer(refused) },
		"failed after it was sent": func(n *node) { n.Answer(command.Reply{Outcome: command.Failed}) },
		"repeated":                 func(n *node) { n.Retries++; n.Answer(granted) },
		"sent again":               func(n *node) { n.MarkResend(); n.Answer(granted) },
	} {
		inGroup(t, 1, func(t *testing.T, g *vote.Group, nodes []*node) {
			r := acquire(g, &vote.Events{}, vote.Earliest)
			answer(nodes[0])
			r.Unref()
			require.Equal(t, 1, r.Users(), what)
		})
	}
}

// A pinned round, and one of a group that does not reuse rounds, are never emptied.
func TestAPinnedRoundIsNeverReused(t *testing.T) {
	for _, reuse := range []bool{true, false} {
		inGroup(t, 1, func(t *testing.T, g *vote.Group, nodes []*node) {
			g.Reuse = reuse
			r := acquire(g, &vote.Events{}, vote.Earliest)
			r.Owner = t
			if reuse {
				r.Pin()
			}
			nodes[0].Answer(granted)
			r.Unref()
			require.Equal(t, t, r.Owner)
		})
	}
}
