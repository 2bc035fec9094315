package redlock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
)

// H26: a late grant of an older attempt by the same Locker is not a vote for the present one. It is
// undone. One release then frees the name, because attempts are known by their tokens.
func TestALateGrantOfAnOlderAttemptIsNoVoteForTheNextOne(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		all := keep(nodes[:2], command.Acquire)
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		older := all.take(command.Acquire)
		require.Len(t, older, 2)
		// One node grants the next attempt, and the others have not answered it.
		done := make(chan error, 1)
		go func() {
			_, err := l.TryAcquire(bg, "a", time.Second)
			done <- err
		}()
		pass(10 * time.Millisecond)
		for _, c := range older {
			c.Answer(command.Reply{Outcome: command.Granted})
		}
		pass(10 * time.Millisecond)
		require.Empty(t, done, "the older attempt's grants were taken for votes")
		pass(time.Second)
		require.ErrorIs(t, <-done, ErrNoQuorum)
		for _, n := range nodes {
			require.Empty(t, n.held)
			require.Len(t, n.commands(command.Release), 2, "each attempt was undone")
		}
	})
}

// The same Locker asks for a name that it holds already. It must not get the lock again, and one
// release frees the name.
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

// docs/dev/rules.md rule 4: a node that does not answer in time may hold the key. Its vote is
// Unknown, never Failed, and its key is undone.
func TestANodeThatTimesOutIsUnknownAndNotFailed(t *testing.T) {
	onFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker, _ *clocktest.Skewed) {
		nodes[0].script, nodes[1].script = silently, silently
		_, err := l.TryAcquire(bg, "a", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrNodeTimeout)
		require.Equal(t, []Outcome{OutcomeUnknown, OutcomeUnknown, OutcomeGranted}, votes(t, err))
		for _, n := range nodes {
			require.Empty(t, n.held)
			require.Len(t, n.commands(command.Release), 1)
		}
	})
}
