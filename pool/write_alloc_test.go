//go:build !race

package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// PERFORMANCE.md: a command causes no allocation in a node, neither when it is checked nor when its reply
// arrives.
func TestACommandCostsNoAllocationInItsNode(t *testing.T) {
	n := newNode(&Config{Name: "n", Clock: clock.Runtime()})
	join(n, command.Membership{})
	l := newLink(newPipeline(n), &transport.Conn{}, session.Facts{Facts: sound()})
	standing := &l.pipeline.standing
	standing.begin(l.conn, l.facts)
	defer standing.end()
	c := acquiring("A", longTTL, "k")
	c.To = nil
	require.NoError(t, standing.admits(&c.Command)) // the first command registers the server, which allocates
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if standing.admits(&c.Command) != nil {
			t.Error("refused")
		}
		l.handle(&c.Command, "OK", nil)
	}))
}
