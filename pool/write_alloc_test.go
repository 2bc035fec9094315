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
	k := newPipeConn(newPipeline(n), &transport.Conn{}, session.Facts{Facts: sound()})
	c := acquiring("A", longTTL, "k")
	c.To = nil
	require.NoError(t, k.admitLocked(&c.Command)) // the first command registers the server, which allocates
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if k.admitLocked(&c.Command) != nil {
			t.Error("refused")
		}
		k.handleReply(&c.Command, "OK", nil)
	}))
}
