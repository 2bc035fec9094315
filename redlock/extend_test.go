package redlock

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/pool"
)

// docs/dev/hazards.md H11.
func TestExtendNeverMakesAKeyThatIsGone(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		fl.masters[0].Del("a")
		require.NoError(t, k.Extend(ctx, 20*time.Second), "two of three still hold it")
		require.Equal(t, 2, fl.keys("a"))
		fl.masters[1].Del("a")
		require.ErrorIs(t, k.Extend(ctx, 20*time.Second), ErrLost)
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

// docs/dev/hazards.md H11: another owner held and released the name in between.
func TestExtendIsRefusedAfterAnotherHeldTheNameInBetween(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx := context.Background()
		a := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Del("a")
		}
		b := take(t, fl.locker(), "a", 10*time.Second)
		require.NoError(t, b.Release(ctx))
		require.ErrorIs(t, a.Extend(ctx, 10*time.Second), ErrLost)
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

// docs/dev/hazards.md H12: the keys outlast the validity by the drift, so a node would grant the
// extension.
func TestNothingIsSentOnceTheValidityIsOver(t *testing.T) {
	for name, opts := range map[string][]LockOption{"by the caller": nil, "by itself": {WithAutoExtend()}} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				k := take(t, fl.locker(), "a", 10*time.Second, opts...)
				fl.clock.Suspend(k.Remaining())
				require.Equal(t, 3, fl.keys("a"))
				var lost *LostError
				require.ErrorAs(t, k.Extend(context.Background(), 10*time.Second), &lost)
				pass(time.Minute)
				require.Zero(t, fl.orders(command.Extend))
			})
		})
	}
}

// docs/dev/hazards.md H12: the lock ends while Extend is under way, after it checked the end.
func TestAnEndBetweenTheCheckAndTheSendIsNoticed(t *testing.T) {
	for cause, opts := range map[error][]LockOption{ErrLost: nil, ErrMaxHold: {WithMaxHold(9 * time.Second)}} {
		synctest.Test(t, func(t *testing.T) {
			skewed := clocktest.NewSkewed(clock.Runtime())
			c := &gatedClock{Clock: skewed}
			nodes, l := fakes(t, 3, WithClock(c))
			k := take(t, l, "a", 10*time.Second, opts...)
			c.gate(2)
			extended := make(chan error, 1)
			go func() { extended <- k.Extend(context.Background(), 10*time.Second) }()
			<-c.reached
			skewed.Jump(10 * time.Second)
			close(c.open)
			require.ErrorIs(t, <-extended, cause)
			require.ErrorIs(t, context.Cause(k.Context()), cause)
			for _, n := range nodes {
				require.Empty(t, n.commands(command.Extend))
			}
		})
	}
}

// docs/dev/hazards.md H12: an extension is not sent if the validity ends while it waits for a
// connection.
func TestAnExtensionThatWaitedTooLongForItsConnectionIsNotSent(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		gate := make(chan struct{})
		dials := 0
		nodes := []*pool.Node{fl.node(fl.masters[0], pool.Config{}), fl.node(fl.masters[1], pool.Config{})}
		slow, err := pool.Open(pool.Config{
			Name: "slow", Address: "slow:1", Clock: fl.clock,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials++; dials > 1 {
					<-gate
				}
				return fl.masters[2].Dial(ctx, network, addr)
			},
		})
		require.NoError(t, err)
		l, err := New(append(nodes, slow), WithClock(fl.clock))
		require.NoError(t, err)
		defer fl.close(l)
		synctest.Wait()
		k := take(t, l, "a", 2*time.Second)
		fl.masters[2].Clients()[0].Drop()
		synctest.Wait()
		require.NoError(t, k.Extend(ctx, 4*time.Second), "by two of three")
		pass(2 * time.Second) // the end as it was when that extension was sent
		close(gate)
		synctest.Wait()
		require.Equal(t, 2, fl.orders(command.Extend))
		require.NoError(t, k.Extend(ctx, 4*time.Second))
		fl.answered()
		require.Equal(t, 5, fl.orders(command.Extend), "a new one goes to all")
		require.NoError(t, k.Release(ctx))
	})
}

// docs/dev/hazards.md H13.
func TestExtendNeverShortens(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", time.Second)
		require.NoError(t, k.Extend(ctx, 10*time.Second))
		left := k.Remaining()
		require.Equal(t, worth(10*time.Second), left)
		require.NoError(t, k.Extend(ctx, time.Second))
		require.Equal(t, left, k.Remaining())
		fl.answered()
		for _, m := range fl.masters {
			require.InDelta(t, 10*time.Second, m.TTL("a"), float64(maxLate))
		}
	})
}

// docs/dev/hazards.md H13: an older, shorter extension of the same token executes last, over
// another connection.
func TestALateShorterExtensionShortensNothing(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		ctx := context.Background()
		a, b := fl.locker(), fl.locker()
		k := take(t, a, "a", 5*time.Second)
		for _, m := range fl.masters {
			m.Clients()[0].HoldRequests()
		}
		require.ErrorIs(t, k.Extend(ctx, time.Second), ErrNoQuorum)
		claim, err := k.Detach()
		require.NoError(t, err)
		k, err = b.Resume(ctx, claim)
		require.NoError(t, err)
		require.NoError(t, k.Extend(ctx, 10*time.Second))
		for _, m := range fl.masters {
			m.Clients()[0].Release()
		}
		fl.answered()
		require.Equal(t, 6, fl.orders(command.Extend))
		for _, m := range fl.masters {
			require.InDelta(t, 10*time.Second, m.TTL("a"), float64(maxLate))
		}
		require.NoError(t, k.Release(ctx))
	})
}

// docs/dev/hazards.md H14.
func TestAMinorityExtendedLeavesTheValidityAndIsReleasedAll(t *testing.T) {
	inBubble(t, 5, func(fl *testbed) {
		ctx := context.Background()
		k := take(t, fl.locker(), "a", 10*time.Second)
		fl.masters[0].Freeze()
		fl.masters[1].Freeze()
		fl.masters[2].Del("a")
		pass(time.Second)
		left := k.Remaining()
		err := k.Extend(ctx, 20*time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrLost)
		require.ErrorContains(t, err, "extend \"a\": 2 of 5 votes, 3 needed")
		require.Equal(t, left-500*time.Millisecond, k.Remaining(), "less the node timeout, and nothing else")
		require.NoError(t, k.Context().Err())
		require.ErrorIs(t, k.Release(ctx), ErrNoQuorum)
		require.Equal(t, 2, fl.keys("a"), "only the frozen ones still have it")
		fl.masters[0].Unfreeze()
		fl.masters[1].Unfreeze()
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestExtendRefusesWhatIsOutOfBoundsAndSendsNothing(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(WithMaxTTL(time.Minute)), "a", time.Second)
		for _, ttl := range []time.Duration{
			-1, 0, 1, 999 * time.Microsecond, 9 * time.Millisecond, 1500 * time.Microsecond,
			time.Minute + time.Millisecond, 1<<63 - 1,
		} { // docs/dev/hazards.md H22, H23
			require.ErrorIs(t, k.Extend(context.Background(), ttl), ErrInvalid, "%d", ttl)
		}
		done, cancel := context.WithCancelCause(context.Background())
		cancel(net.ErrClosed)
		require.ErrorIs(t, k.Extend(done, time.Second), net.ErrClosed)
		require.Zero(t, fl.orders(command.Extend))
		require.NoError(t, k.Release(done))
		require.ErrorIs(t, k.Extend(context.Background(), time.Second), ErrReleased)
		require.Zero(t, fl.orders(command.Extend))
	})
}

func TestAnExtensionMayTakeEffectAfterItsCallerLeft(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.SetDelay(20 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		err := k.Extend(ctx, 20*time.Second)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNoQuorum, "why it had not succeeded until then")
		require.Less(t, k.Remaining(), 10*time.Second)
		pass(10 * time.Millisecond)
		require.Greater(t, k.Remaining(), 19*time.Second)
	})
}
