package vote_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

func TestABroadcastCollectsTheAnswersOfAllNodes(t *testing.T) {
	inGroup(t, 3, func(t *testing.T, g *vote.Group, nodes []*node) {
		b := g.Broadcast(func(_ int, r *command.Request) { command.NewPing(r) })
		nodes[2].Answer(granted)
		nodes[0].Answer(refused)
		require.Empty(t, b.Done())
		require.Nil(t, b.Replies()[1])
		require.Equal(t, command.Refused, b.Replies()[0].Outcome)
		nodes[1].Answer(failed)
		<-b.Done()
		require.Equal(t, command.Failed, b.Replies()[1].Outcome)
	})
}
