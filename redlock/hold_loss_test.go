package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// docs/dev/hazards.md H16: one error on a majority is retried.
func TestATransientFailureToExtendIsRetriedAndTheContextLives(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the others fail
		l, p := fl.probed()
		k := takeAtOnce(t, l, "a", 30*time.Second, WithAutoExtend())
		ctx := k.Context()
		heal := failing(fl.masters[0], fl.masters[1])
		pass(k.lease.Terms.Interval)
		require.Len(t, p.of(command.Extend), 3)
		require.Less(t, k.Remaining(), 20*time.Second)
		heal()
		pass(time.Second)
		require.Len(t, p.of(command.Extend), 6, "soon, not at the next third")
		require.Greater(t, k.Remaining(), 28*time.Second)
		require.NoError(t, ctx.Err())
		pass(3 * time.Minute)
		require.NoError(t, ctx.Err())
		require.NoError(t, k.Release(ctx))
	})
}

// docs/dev/hazards.md H16: the opposite case.
func TestALockThatAMajorityDisownsEndsWithinOneExtendInterval(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(1) // the others disown it
		k := takeAtOnce(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		ctx := k.Context()
		pass(time.Second)
		fl.masters[0].Del("a")
		fl.masters[2].Del("a")
		pass(k.lease.Terms.Interval - time.Second - 1)
		require.NoError(t, ctx.Err())
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		fl.answered()
		require.Zero(t, fl.keys("a"), "the third node's key is undone, though it would live for 20 s")
		var lost *LostError
		require.ErrorAs(t, k.Release(ctx), &lost)
	})
}

// docs/dev/hazards.md H16.
func TestAnExtendThatFindsTheLockGoneEndsItAtOnce(t *testing.T) {
	inBubbles(t, 5, func(fl *testbed) {
		fl.lateAt(4) // the first three disown it
		k := take(t, fl.locker(), "a", 30*time.Second)
		for _, m := range fl.masters[:3] {
			m.Del("a")
		}
		began := fl.clock.Now()
		require.ErrorIs(t, k.Extend(context.Background(), 30*time.Second), ErrLost)
		require.Equal(t, began, fl.clock.Now())
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		fl.releasedEverywhere("a")
	})
}

// docs/dev/hazards.md H16: a lock that only a minority disowns continues.
func TestALockThatAMinorityLostContinues(t *testing.T) {
	inBubbles(t, 5, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		fl.masters[0].Del("a")
		fl.masters[1].Del("a")
		pass(5 * time.Minute)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(context.Background()))
	})
}

// docs/dev/hazards.md H16: failures decided the round before the third node disowned the lock. The
// fifth node never answers.
func TestARefusalThatCompletesAQuorumAfterTheDecisionEndsTheLockAtOnce(t *testing.T) {
	inFakes(t, 5, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", 30*time.Second)
		refused := command.Reply{Outcome: command.Refused}
		nodes[0].script = answerTo(command.Extend, refused)
		nodes[1].script = answerTo(command.Extend, refused)
		nodes[2].script = answerTo(command.Extend, command.Reply{Outcome: command.Failed, Err: command.ErrExpired})
		nodes[3].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op == command.Extend {
				c.MarkSent()
				time.AfterFunc(time.Millisecond, func() { c.Answer(refused) })
			}
			return c.Op == command.Extend
		}
		silent(nodes[4], command.Extend)
		require.ErrorIs(t, k.Extend(context.Background(), 30*time.Second), ErrNoQuorum)
		require.NoError(t, k.Context().Err())
		pass(time.Millisecond)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
	})
}

// The timer is set for the loss. A goroutine that has not noticed the loss must not move it.
func TestALossIsNotDelayedByALaterTimer(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, _ []*fakeNode, l *Locker) {
		k := take(t, l, "a", 30*time.Second)
		ctx := k.Context()
		disown(k)
		k.checked(&vote.Round{Start: l.now()}, k.lease.Ends()-1)
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		require.LessOrEqual(t, l.now().Sub(k.lease.Ends()), time.Duration(0), "at once")
	})
}

// The round is decided a moment before the lock's end has moved. Extend must not return in between.
func TestExtendReturnsNotBeforeTheEndHasMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &gatedClock{Clock: clock.Runtime()}
		nodes, l := fakes(t, 1, WithClock(c))
		k := take(t, l, "a", 10*time.Second)
		nodes[0].script = func(n *fakeNode, cmd *command.Command) bool {
			if cmd.Op == command.Extend {
				c.gate(1)
				go n.act(cmd)
				<-c.reached // the round is decided, and its effect not yet recorded
			}
			return cmd.Op == command.Extend
		}
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(context.Background(), 20*time.Second) }()
		synctest.Wait()
		require.Empty(t, extended)
		close(c.open)
		require.NoError(t, <-extended)
		require.Greater(t, k.Remaining(), 19*time.Second)
	})
}

// docs/dev/hazards.md H16: two of three nodes lose all keys.
func TestALockIsLostWhenTwoOfThreeNodesRestartEmpty(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 30*time.Second, WithAutoExtend())
		require.NoError(t, fl.masters[0].Restart(false))
		require.NoError(t, fl.masters[1].Restart(false))
		pass(k.lease.Terms.Interval + time.Second)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
		fl.releasedEverywhere("a")
		require.NoError(t, take(t, l, "a", 30*time.Second).Release(context.Background()), "and anybody may have it")
	})
}
