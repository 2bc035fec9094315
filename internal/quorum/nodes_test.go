package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/quorum"
)

func TestASetHasTheNodesThatItWasGiven(t *testing.T) {
	for node := range quorum.MaxNodes {
		s := quorum.Nodes(0).With(node).With(quorum.MaxNodes - 1 - node)
		require.Equal(t, 2, s.Len())
		require.Equal(t, 1, s.Without(node).Len())
		require.False(t, s.Without(node).Has(node))
		for other := range quorum.MaxNodes {
			require.Equal(t, other == node || other == quorum.MaxNodes-1-node, s.Has(other), "%d in %b", other, s)
		}
	}
}
