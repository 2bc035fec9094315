package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// A release succeeds if a majority surely holds no key: here one node has released, one never was
// sent anything, and one is frozen.
func TestAReleaseIsDoneWhenAMajorityHoldsNothing(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[2].script = func(_ *fakeNode, c *command.Command) bool {
			c.Answer(command.Reply{Outcome: command.Failed, NotSent: true})
			return true
		}
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		nodes[1].script = func(*fakeNode, *command.Command) bool { return true } // frozen
		require.NoError(t, k.Release(bg))
		require.Empty(t, nodes[2].commands(command.Release), "nothing to undo there")
	})
}

// Two nodes of three should hold the lock, and one of them has lost it. The third node, which never
// got the acquire, must not count for the holder.
func TestAReleaseIsALossWhenTheHolderHadAMinorityOnly(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[2].script = func(_ *fakeNode, c *command.Command) bool {
			c.Answer(command.Reply{Outcome: command.Failed, NotSent: true})
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

// A fault and a refusal come first. Otherwise Release would report ErrNoQuorum although the name is free on a majority.
func TestAReleaseWaitsForTheAnswerThatShowsThatTheNameIsFree(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		nodes[2].held["a"] = "another's"
		k := take(t, l, "a", time.Minute)
		nodes[1].script = answerTo(command.Release, command.Reply{Outcome: command.Failed, Err: errSome})
		answerLate := silent(nodes[0], command.Release)
		released := make(chan error, 1)
		go func() { released <- k.Release(bg) }()
		synctest.Wait()
		require.Empty(t, released)
		answerLate()
		require.NoError(t, <-released)
	})
}
