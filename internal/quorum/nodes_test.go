package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/quorum"
)

func TestASetHasTheNodesThatItWasGiven(t *testing.T) {
	for node := range quorum.MaxNodes {
		s := quorum.Nodes(0).With(node).With(quorum.MaxNodes - 1 - node)
		for other := range quorum.MaxNodes {
			require.Equal(t, other == node || other == quorum.MaxNodes-1-node, s.Has(other), "%d in %b", other, s)
		}
	}
}
