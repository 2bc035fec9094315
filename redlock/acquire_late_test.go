package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// H26: a late grant of an older acquisition by the same Locker is no vote for the present
// one, is undone, and one release frees the name: nobody is known by who they are.
func TestALateGrantOfAnOlderAttemptIsNoVoteForTheNextOne(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		all := keep(nodes[:2], wire.Acquire)
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		older := all.take(wire.Acquire)
		require.Len(t, older, 2)
		// The next attempt has one node, and the others have said nothing to it.
		done := make(chan error, 1)
		go func() {
			_, err := l.TryAcquire(bg, "a", time.Second)
			done <- err
		}()
		pass(10 * time.Millisecond)
		for _, c := range older {
			c.Answer(wire.Reply{Outcome: OutcomeGranted})
		}
		pass(10 * time.Millisecond)
		require.Empty(t, done, "the older attempt's grants were taken for votes")
		pass(time.Second)
		require.ErrorIs(t, <-done, ErrNoQuorum)
		for _, n := range nodes {
			require.Empty(t, n.held)
			require.Len(t, n.commands(wire.Release), 2, "each attempt was undone")
		}
	})
}

// The name is taken again with the same Locker while it is held: that is no re-entry, and
// one release frees it.
func TestTheSameLockerDoesNotEnterTwice(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", time.Second)
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrHeld)
		require.NotErrorIs(t, err, ErrAlreadyHeld, "that is for contexts")
		require.NoError(t, k.Release(bg))
		for _, n := range nodes {
			require.Empty(t, n.held)
		}
	})
}

// docs/dev/rules.md rule 4: a node that gives no answer in time may hold the key. Its vote is
// Unknown, never Failed, and what it may hold is undone.
func TestANodeThatTimesOutIsUnknownAndNotFailed(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clock.Skewed) {
		nodes[0].script, nodes[1].script = silently, silently
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNodeTimeout)
		require.Equal(t, []Outcome{OutcomeUnknown, OutcomeUnknown, OutcomeGranted}, votes(t, err))
		for _, n := range nodes {
			require.Empty(t, n.held)
			require.Len(t, n.commands(wire.Release), 1)
		}
	})
}
