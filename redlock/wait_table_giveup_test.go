package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// hesitant is a node that does something else before a release and what goes behind it.
type hesitant struct {
	*pool.Node
	before func()
}

func (n *hesitant) SubmitBoth(first, second *wire.Command) {
	if f := n.before; f != nil {
		n.before = nil
		f()
	}
	n.Node.SubmitBoth(first, second)
}

// Whom a lock is handed to may give up before the release is on its way: it goes out then
// as one that somebody is behind, and nobody would hear of it.
func TestAContenderThatGivesUpWhileItIsHandedTheLockLeavesItToTheNext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		slow := &hesitant{Node: fl.node(fl.masters[0], pool.Config{})}
		fl.t.Cleanup(func() { _ = slow.Close() })
		nodes := []Node{slow, fl.node(fl.masters[1], pool.Config{}), fl.node(fl.masters[2], pool.Config{})}
		l, err := New(nodes, WithClock(fl.clock))
		require.NoError(fl.t, err)
		fl.t.Cleanup(func() { fl.close(l) })
		k := take(fl.t, l, "a", time.Hour)
		ctx, cancel := context.WithCancelCause(bg)
		first := waitingFor(ctx, l, "a")
		next := waitingFor(bg, l, "a")
		slow.before = func() { cancel(errStop); time.Sleep(5 * time.Millisecond) }
		released := time.Now()
		require.NoError(fl.t, k.Release(bg))
		require.ErrorIs(fl.t, (<-first).err, errStop)
		require.LessOrEqual(fl.t, gets(fl.t, next).at.Sub(released), 100*time.Millisecond)
	})
}
