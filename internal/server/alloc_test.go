//go:build !race

package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// PERFORMANCE.md: a command causes no allocation in a node, neither when it is checked nor when its reply
// arrives.
func TestACommandCostsNoAllocationInItsNode(t *testing.T) {
	l := begun(t)
	standing := &l.server.standing
	c := acquiring("A", "k")
	require.NoError(t, standing.admits(c)) // the first command registers the server, which allocates
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if standing.admits(c) != nil {
			t.Error("refused")
		}
		l.handle(c, "OK", nil)
	}))
}
