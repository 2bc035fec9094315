package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/late"
)

// docs/dev/hazards.md H113: A wins with n1 and n2 while n3 has not answered. A's SET executes late
// on n3, n1 loses its key, and an extension counts n2 and n3. An undo on n3 at any time would let B
// acquire with n1 and n3.
func TestNothingOfALiveLockIsUndoneOnAnyNode(t *testing.T) {
	late.LeaveOut(t, "it makes one given master late, and another client tries at every instant of the hold")
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		a, b := fl.locker(), fl.locker()
		n1, n3 := fl.masters[0], fl.masters[2]
		straggler := n3.Clients()[0]
		straggler.HoldRequests()
		k := take(t, a, "a", 10*time.Second)
		require.Equal(t, 2, fl.keys("a"))
		pass(time.Second) // beyond the node timeout
		straggler.Release()
		fl.heldEverywhere("a")
		n1.Del("a")
		require.NoError(t, k.Extend(ctx, 20*time.Second))
		for k.Remaining() > 0 {
			_, err := b.TryAcquire(ctx, "a", time.Second)
			require.ErrorIs(t, err, ErrHeld)
			fl.answered()
			for _, m := range fl.masters {
				for _, e := range m.Log() {
					require.False(t, isScript(command.Release, e.Name, e.Args) && e.Args[3] == k.Token(), "undone on %s", m.Name())
				}
			}
			pass(min(time.Second, k.Remaining()))
		}
		require.NoError(t, take(t, b, "a", time.Second).Release(ctx))
	})
}

// docs/dev/hazards.md H113: the same if the late node's connection ends and is dialled again.
func TestNothingOfALiveLockIsUndoneAfterARedial(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		n3 := fl.masters[2]
		l := fl.locker()
		n3.Freeze()
		k := take(t, l, "a", 30*time.Second, WithAutoExtend())
		pass(8 * time.Second) // beyond the hard timeout
		n3.Unfreeze()
		pass(5 * time.Minute)
		require.NoError(t, k.Context().Err())
		require.Zero(t, fl.orders(command.Release))
		require.NoError(t, k.Release(context.Background()))
		pass(time.Minute)
		require.Zero(t, fl.keys("a"))
		require.Zero(t, booked(l))
	})
}

// docs/dev/hazards.md H114: the replies of a quorum arrive after the end.
func TestTheRepliesOfAnExtensionReviveNoLockThatHasRunOut(t *testing.T) {
	for name, starved := range map[string]bool{"ended by its timer": false, "not ended by anybody yet": true} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				ctx := context.Background()
				k := take(t, fl.locker(), "a", 10*time.Second)
				alive := k.Context().Done()
				pass(k.Remaining() - 100*time.Millisecond)
				for _, m := range fl.masters {
					m.Clients()[0].HoldReplies()
				}
				extended := make(chan error, 1)
				go func() { extended <- k.Extend(ctx, 20*time.Second) }()
				fl.answered()
				require.Equal(t, 3, fl.orders(command.Extend))
				if starved {
					fl.clock.Stall()
					fl.clock.Jump(100 * time.Millisecond)
				} else {
					pass(100 * time.Millisecond)
					<-alive
				}
				for _, m := range fl.masters {
					m.Clients()[0].Release()
				}
				require.ErrorIs(t, <-extended, ErrLost)
				fl.answered()
				require.LessOrEqual(t, k.Remaining(), time.Duration(0))
				require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
				require.ErrorIs(t, k.Check(ctx), ErrLost)
				require.ErrorIs(t, k.Release(ctx), ErrLost)
				require.Zero(t, fl.keys("a"), "the undo stood behind the extension")
				fl.clock.Resume()
			})
		})
	}
}

// docs/dev/hazards.md H114: the replies of a quorum arrive after the release.
func TestTheRepliesOfAnExtensionReviveNoLockThatWasReleased(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		var reported []error
		trace := &Trace{Extended: func(e RoundEvent) { reported = append(reported, e.Err) }}
		a, b := fl.locker(WithTrace(trace)), fl.locker()
		k := take(t, a, "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Clients()[0].HoldReplies()
		}
		extended, released := make(chan error, 1), make(chan error, 1)
		go func() { extended <- k.Extend(ctx, 20*time.Second) }()
		synctest.Wait()
		go func() { released <- k.Release(ctx) }()
		synctest.Wait()
		next := takeAtOnce(t, b, "a", 10*time.Second)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		for _, m := range fl.masters {
			m.Clients()[0].Release()
		}
		require.NoError(t, <-released)
		require.ErrorIs(t, <-extended, ErrReleased)
		fl.answered()
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0], ErrReleased, "though a quorum granted")
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		require.ErrorIs(t, context.Cause(k.Context()), ErrReleased)
		require.NoError(t, next.Check(ctx))
		require.NoError(t, next.Release(ctx))
	})
}

// docs/dev/hazards.md H114: late votes do not turn a failed extension into a success either.
func TestAnExtensionThatFailedStaysFailed(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Clients()[0].HoldReplies()
		}
		require.ErrorIs(t, k.Extend(ctx, 20*time.Second), ErrNoQuorum)
		left := k.Remaining()
		for _, m := range fl.masters {
			m.Clients()[0].Release()
		}
		fl.answered()
		require.Equal(t, left, k.Remaining())
		require.NoError(t, k.Release(ctx))
	})
}
