//go:build !race

package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// PERFORMANCE.md: what a command costs in a node is no allocation, neither to be held
// against the fleet that it belongs to nor when its reply has come.
func TestACommandCostsNoAllocationInItsNode(t *testing.T) {
	k := newPipeConn(newPipeline(&Node{cfg: &Config{Name: "n", Clock: clock.Runtime()}}), &rawConn{}, facts{Facts: sound()})
	c := acquiring("A", longTTL, "k")
	c.req.NodeSet, c.To = wire.NewNodeSet(false), nil
	require.NoError(t, k.rejectReasonLocked(&c.Command)) // the first of its fleet costs something
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if k.rejectReasonLocked(&c.Command) != nil {
			t.Error("refused")
		}
		k.handleReply(&c.Command, "OK", nil)
	}))
}
