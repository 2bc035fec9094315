package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// A majority that surely holds nothing of it makes a release good: here one node
// released, one never was sent anything, and one is frozen.
func TestAReleaseIsDoneWhenAMajorityHoldsNothing(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[2].script = func(_ *fakeNode, c *wire.Command) bool {
			c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true})
			return true
		}
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		nodes[1].script = func(*fakeNode, *wire.Command) bool { return true } // frozen
		require.NoError(t, k.Release(bg))
		require.Empty(t, nodes[2].commands(wire.Release), "nothing to undo there")
	})
}

// What two of three say of a lock that they should hold is not outweighed by one.
func TestAReleaseIsALossWhenTheHolderHadAMinorityOnly(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[2].script = func(_ *fakeNode, c *wire.Command) bool {
			c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true})
			return true
		}
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		nodes[1].mu.Lock()
		delete(nodes[1].held, "a")
		nodes[1].mu.Unlock()
		require.ErrorIs(t, k.Release(bg), ErrLost)
	})
}
