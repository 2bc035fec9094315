package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// hesitant is a node that calls a function before it submits a release and the next attempt.
type hesitant struct {
	*pool.Node
	before func()
}

func (n *hesitant) Voter() command.Node { return hesitantVoter{voterOf(n.Node), n} }

type hesitantVoter struct {
	command.Voter
	node *hesitant
}

func (v hesitantVoter) SubmitBoth(first, second *command.Command) {
	if f := v.node.before; f != nil {
		v.node.before = nil
		f()
	}
	v.Voter.SubmitBoth(first, second)
}

// The waiter that a lock is handed to gives up before the release is sent. That release is not
// announced, because an attempt was to follow it. The next waiter must get the lock all the same.
func TestAWaiterThatGivesUpDuringAHandoffLeavesTheLockToTheNext(t *testing.T) {
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
