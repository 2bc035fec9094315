package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/late"
)

func TestALockIsExtendedAtAThirdOfItsValidity(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := takeAtOnce(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		third := (30*time.Second - 307*time.Millisecond) / 3
		due := time.Now()
		for n := range 5 {
			due = due.Add(third)
			pass(time.Until(due) - 1)
			require.Equal(t, 3*n, fl.orders(command.Extend))
			pass(1)
			require.Equal(t, 30*time.Second-307*time.Millisecond, k.Remaining())
			fl.answered()
			require.Equal(t, 3*(n+1), fl.orders(command.Extend))
		}
		require.NoError(t, k.Release(context.Background()))
		pass(time.Hour)
		require.Equal(t, 15, fl.orders(command.Extend))
	})
}

func TestALockWithoutAutoExtendEndsByItself(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second)
		ctx := k.Context()
		pass(k.Remaining() - 1)
		require.NoError(t, ctx.Err())
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		require.Zero(t, fl.orders(command.Extend))
		fl.releasedEverywhere("a")
	})
}

func TestAFailedExtensionIsTriedAgainAndAgainWhileTheLockIsValid(t *testing.T) {
	late.LeaveOut(t, "it counts the tries of all nodes at given instants")
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		ctx := k.Context()
		defer failing(fl.masters...)()
		pass(k.lease.Terms.Interval)
		require.Equal(t, 3, fl.orders(command.Extend))
		pass(k.Remaining() - 1)
		require.NoError(t, ctx.Err())
		tries := fl.orders(command.Extend) / 3
		require.Greater(t, tries, 4)
		require.Less(t, tries, 20, "with pauses that grow")
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		pass(time.Hour)
		require.Equal(t, 3*tries, fl.orders(command.Extend))
	})
}

// One extension is under way at a time. The next one does not start at the instant at which the one
// before fails by the node timeout.
func TestAnExtensionThatTimesOutIsFollowedAfterAPause(t *testing.T) {
	var sent []time.Time
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", 30*time.Second, WithAutoExtend())
		for _, n := range nodes {
			silent(n, command.Extend)
		}
		last := nodes[2].script
		nodes[2].script = func(n *fakeNode, c *command.Command) bool {
			if c.Op == command.Extend {
				sent = append(sent, time.Now())
			}
			return last(n, c)
		}
		pass(k.Remaining())
		require.Greater(t, len(sent), 3)
		for i := range sent[1:] {
			require.Greater(t, sent[i+1].Sub(sent[i]), 500*time.Millisecond, "the node timeout")
		}
	})
}

func TestAutoExtensionSurvivesADeadNode(t *testing.T) {
	for name, kill := range map[string]func(*testbed){
		"stopped": func(fl *testbed) { fl.masters[1].Stop() },
		"frozen":  func(fl *testbed) { fl.masters[1].Freeze() },
		"empty":   func(fl *testbed) { require.NoError(fl.t, fl.masters[1].Restart(false)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				k := take(t, fl.locker(), "a", 10*time.Second, WithAutoExtend())
				ctx := k.Context()
				kill(fl)
				for range 100 {
					pass(time.Second)
					require.Greater(t, k.Remaining(), 6*time.Second)
				}
				require.NoError(t, ctx.Err())
				require.NoError(t, k.Release(ctx))
			})
		})
	}
}

// A caller's own short extensions must not defer the regular extension beyond the end.
func TestShortExtensionsByTheCallerDoNotStarveTheAutoExtension(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend())
		for range 20 {
			pass(9 * time.Second)
			require.NoError(t, k.Extend(context.Background(), 5*time.Second))
		}
		pass(time.Minute)
		require.NoError(t, k.Context().Err())
		require.NoError(t, k.Release(context.Background()))
	})
}

func TestAWorkerThatHangsLosesItsLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 3*time.Second, WithAutoExtend(), WithProgress(5*time.Second))
		ctx := k.Context()
		for range 10 {
			pass(4 * time.Second)
			k.Progress()
		}
		require.NoError(t, ctx.Err())
		hung := fl.clock.Now()
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		after := fl.clock.Now().Sub(hung)
		require.Greater(t, after, 5*time.Second)
		require.Less(t, after, 8*time.Second, "what was left of the validity when it stopped")
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestAWorkerThatContinuesInTimeKeepsItsLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 30*time.Second, WithAutoExtend(), WithProgress(time.Second))
		pass(20 * time.Second) // nothing was extended at 10 s
		require.Zero(t, fl.orders(command.Extend))
		k.Progress()
		fl.answered()
		require.Equal(t, 3, fl.orders(command.Extend))
		require.Greater(t, k.Remaining(), 29*time.Second)
		require.NoError(t, k.Release(context.Background()))
	})
}
