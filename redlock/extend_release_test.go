package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

// stage is how far an extension has come on one node when the lock is released.
type stage int

const (
	answered  stage = iota // the client has the reply
	executed               // the reply is in transit
	travelled              // the request is in transit
	stages
)

func (s stage) hold(c *fakeredis.Client) {
	switch s {
	case executed:
		c.HoldReplies()
	case travelled:
		c.HoldRequests()
	}
}

// docs/dev/hazards.md H15: the lock is released at every stage of an extension on every node. In
// some runs the nodes have lost the script, so that the extension is sent again.
func TestAReleaseAtAnyStageOfAnExtensionLeavesNothing(t *testing.T) {
	for n := range int(stages * stages * stages * 2) {
		at := [3]stage{stage(n) % stages, stage(n) / stages % stages, stage(n) / stages / stages % stages}
		forgotten := n >= int(stages*stages*stages)
		t.Run(fmt.Sprint(at, forgotten), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) { releaseAmid(t, fl, at, forgotten) })
		})
	}
}

func releaseAmid(t *testing.T, fl *testbed, at [3]stage, forgotten bool) {
	t.Helper()
	ctx := context.Background()
	l := fl.locker()
	k := take(t, l, "a", 10*time.Second)
	alive := k.Context()
	require.NoError(t, k.Extend(ctx, 10*time.Second)) // the nodes have got the script
	for i, m := range fl.masters {
		at[i].hold(m.Clients()[0])
		if forgotten {
			m.FlushScripts()
		}
	}
	extended, released := make(chan error, 1), make(chan error, 1)
	go func() { extended <- k.Extend(ctx, 20*time.Second) }()
	synctest.Wait()
	won := k.Remaining() > 10*time.Second
	go func() { released <- k.Release(ctx) }()
	synctest.Wait()
	require.ErrorIs(t, context.Cause(alive), ErrReleased)
	for _, m := range fl.masters {
		m.Clients()[0].Release()
		fl.answered()
	}
	require.NoError(t, <-released)
	err := <-extended
	require.Equal(t, won, err == nil)
	require.True(t, won || errors.Is(err, ErrReleased), "%v", err)
	require.LessOrEqual(t, k.Remaining(), time.Duration(0))
	require.Empty(t, k.extending.rounds)
	require.Zero(t, booked(l))
	require.Zero(t, l.timers.Len())
	require.Zero(t, fl.keys("a"))
	for _, m := range fl.masters {
		list := asked(m)
		require.Contains(t, list, command.Release)
		require.NotContains(t, list[slices.Index(list, command.Release):], command.Extend, "behind the release: %v", list)
	}
}

// docs/dev/hazards.md H15: an automatic extension that is under way does not make a release fail or
// wait.
func TestAReleaseDuringAnAutoExtensionWaitsForNothingButItsOwnAnswers(t *testing.T) {
	late.LeaveOut(t, "one node each has answered, failed and is slow")
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		heal := failing(fl.masters[0])
		defer heal()
		fl.masters[2].SetDelay(300 * time.Millisecond)
		pass(k.lease.Terms.Interval + time.Millisecond)
		require.Equal(t, 3, fl.orders(command.Extend))
		require.Len(t, k.extending.rounds, 1, "one answered, one failed, one under way")
		began := fl.clock.Now()
		require.NoError(t, k.Release(context.Background()))
		require.Equal(t, began, fl.clock.Now())
		pass(time.Minute)
		require.Equal(t, 3, fl.orders(command.Extend))
		require.Zero(t, fl.keys("a"))
	})
}

// docs/dev/hazards.md H15: a refusal that comes after the release is not a loss. An extension that
// the release overtook is not reported as a failure.
func TestAnExtensionThatTheReleaseOvertookIsNotCalledAFailure(t *testing.T) {
	var seen []error
	trace := &Trace{Extended: func(e RoundEvent) { seen = append(seen, e.Err) }}
	log := &logged{}
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", 10*time.Second)
		var lets []func()
		for _, n := range nodes {
			lets = append(lets, silent(n, command.Extend))
		}
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(context.Background(), 10*time.Second) }()
		synctest.Wait()
		require.NoError(t, k.Release(context.Background()))
		for _, let := range lets {
			let()
		}
		require.ErrorIs(t, <-extended, ErrReleased)
		require.NoError(t, k.Release(context.Background()))
		synctest.Wait()
		require.Len(t, seen, 1)
		require.ErrorIs(t, seen[0], ErrReleased)
		require.Empty(t, log.lines())
	}, WithTrace(trace), WithLogger(log.logger()))
}

// An extension that a node may still send again (NOSCRIPT, a redirect) is cancelled before the undo
// is submitted to any node (docs/dev/rules.md rule 5).
func TestAnExtensionIsCancelledBeforeTheUndoIsSubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []*fakeNode
		var voters []command.Voter
		released := 0
		for _, name := range []string{"a", "b", "c"} {
			n := newFake(name)
			n.script = func(_ *fakeNode, c *command.Command) bool {
				switch c.Op {
				case command.Extend:
					c.MarkSent()
					return true // no answer yet
				case command.Release:
					released++
					for _, m := range nodes {
						for _, x := range m.commands(command.Extend) {
							require.True(t, x.Cancelled())
						}
					}
				}
				return false
			}
			nodes, voters = append(nodes, n), append(voters, n)
		}
		l, err := newOver(voters)
		require.NoError(t, err)
		lk, err := l.Acquire(bg, "x", 10*time.Second)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- lk.Extend(bg, 10*time.Second) }()
		synctest.Wait()
		require.NoError(t, lk.Release(bg))
		require.Equal(t, 3, released)
		for _, n := range nodes {
			for _, x := range n.commands(command.Extend) {
				x.Answer(command.Reply{Outcome: command.Failed})
			}
		}
		require.Error(t, <-done)
		require.NoError(t, l.Close(bg))
	})
}
