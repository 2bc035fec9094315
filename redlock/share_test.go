package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/hazards.md H109, here and below: shares.

// shared acquires a share of the lock k.
func shared(t *testing.T, k *Lock, opts ...LockOption) *Lock {
	t.Helper()
	a := &acquisition{call: call{l: k.l, names: k.holder.Names[:1], ttl: 100 * time.Millisecond}}
	s, err := a.acquire(k.Context(), append(opts, WithShared()))
	require.NoError(t, err)
	require.NotNil(t, s.outer)
	return s
}

func TestAShareCostsNoTrafficAndHasAReleaseOfItsOwn(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.ForgetLog()
		}
		s := shared(t, k)
		require.Equal(t, k.Token(), s.Token())
		require.Equal(t, []string{"a"}, s.Names())
		require.Equal(t, k.Remaining(), s.Remaining())
		ctx := s.Context()
		require.NoError(t, ctx.Err())
		require.NoError(t, s.Release(bg))
		require.ErrorIs(t, context.Cause(ctx), ErrReleased)
		require.LessOrEqual(t, s.Remaining(), time.Duration(0))
		require.ErrorIs(t, s.Check(bg), ErrReleased)
		require.ErrorIs(t, s.Extend(bg, time.Second), ErrReleased)
		require.NoError(t, s.Release(bg), "the first result")
		fl.answered()
		for _, m := range fl.masters {
			require.Empty(t, asked(m))
		}
		require.NoError(t, k.Context().Err(), "the lock goes on")
		require.NoError(t, k.Release(bg))
	})
}

func TestAShareHasAMaximumHoldOfItsOwn(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		s := shared(t, k, WithMaxHold(3*time.Second))
		inner := shared(t, s)
		ctx := inner.Context()
		require.Equal(t, 3*time.Second, s.Remaining())
		require.Equal(t, 3*time.Second, inner.Remaining(), "it ends with what it is a share of")
		pass(3*time.Second - 1)
		require.NoError(t, ctx.Err())
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), ErrMaxHold)
		require.ErrorIs(t, s.Release(bg), ErrMaxHold)
		require.NoError(t, k.Check(bg))
		require.Equal(t, 3, fl.keys("a"))
		require.NoError(t, k.Release(bg))
	})
}

func TestASharesLimits(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.AcquireAll(bg, []string{"a", "b"}, 10*time.Second)
		require.NoError(t, err)
		share := func(ttl time.Duration, opts ...LockOption) error {
			s, err := l.Acquire(k.Context(), "a", ttl, append(opts, WithShared())...)
			if err == nil {
				err = s.Release(bg)
			}
			return err
		}
		pass(4 * time.Second)
		require.NoError(t, share(10*time.Second), "one name of two")
		require.ErrorIs(t, share(10*time.Second+time.Millisecond), ErrInvalid)
		require.ErrorIs(t, share(time.Second, WithMinHold(time.Second)), ErrInvalid)
		require.ErrorIs(t, share(time.Second, WithStopMargin(time.Millisecond)), ErrInvalid)
		require.ErrorIs(t, share(time.Second, WithAutoExtend(), WithProgress(time.Second)), ErrInvalid)
		_, err = shared(t, k).Detach()
		require.ErrorIs(t, err, ErrInvalid)
		require.NoError(t, k.Release(bg))
	})
}

// Every end of the outer handle first ends its shares, and their shares before them, with its
// cause.
func TestEveryEndOfALockEndsItsSharesFirst(t *testing.T) {
	for _, test := range []struct {
		cause error
		opts  []LockOption
		end   func(fl *testbed, k *Lock)
	}{
		{ErrReleased, nil, func(fl *testbed, k *Lock) { require.NoError(fl.t, k.Release(bg)) }},
		{ErrLost, nil, func(*testbed, *Lock) { pass(10 * time.Second) }},
		{ErrLost, nil, func(fl *testbed, k *Lock) {
			for _, m := range fl.masters {
				m.Del("a")
			}
			require.ErrorIs(fl.t, k.Extend(bg, time.Second), ErrLost)
		}},
		{ErrMaxHold, []LockOption{WithMaxHold(time.Second)}, func(*testbed, *Lock) { pass(time.Second) }},
		{ErrDetached, nil, func(fl *testbed, k *Lock) {
			_, err := k.Detach()
			require.NoError(fl.t, err)
		}},
	} {
		t.Run(test.cause.Error(), func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				var ended []HoldEvent
				l := fl.locker(WithTrace(&Trace{Ended: func(e HoldEvent) { ended = append(ended, e) }}))
				k := take(t, l, "a", 10*time.Second, test.opts...)
				pass(100 * time.Millisecond)
				s := shared(t, k)
				pass(100 * time.Millisecond)
				inner := shared(t, s)
				handles := []*Lock{inner, s, k}
				for _, h := range handles {
					require.NoError(t, h.Context().Err())
				}
				test.end(fl, k)
				fl.answered()
				for i, h := range handles {
					require.LessOrEqual(t, h.Remaining(), time.Duration(0))
					require.ErrorIs(t, context.Cause(h.Context()), test.cause)
					require.ErrorIs(t, ended[i].Cause, test.cause)
					require.True(t, i == 0 || ended[i].Held > ended[i-1].Held, "the younger handles first")
				}
				require.ErrorIs(t, inner.Release(bg), test.cause)
				require.ErrorIs(t, s.Release(bg), test.cause)
				require.Empty(t, k.family.shares)
			})
		})
	}
}

// The outer handle's context ends early (WithStopMargin). The contexts of its shares end at the
// same time, also of a share that begins afterwards.
func TestTheStopMarginEndsTheContextsOfSharesToo(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second, WithStopMargin(4*time.Second))
		s := shared(t, k)
		ctx := s.Context()
		pass(6 * time.Second)
		require.ErrorIs(t, context.Cause(ctx), ErrLost)
		require.Greater(t, s.Remaining(), time.Duration(0))
		late, err := l.Acquire(context.WithoutCancel(k.Context()), "a", time.Second, WithShared())
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(late.Context()), ErrLost)
		require.NoError(t, s.Release(bg))
		require.NoError(t, late.Release(bg))
		require.NoError(t, k.Release(bg))
	})
}

// errShared denotes a share that was acquired.
var errShared = errors.New("a valid share")

// A share that begins while its lock ends is never valid at the same time as the next holder.
func TestAShareIsNotTakenOfALockThatEndsMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &gatedClock{Clock: clock.Runtime()}
		_, l := fakes(t, 3, WithClock(c))
		k := take(t, l, "a", 10*time.Second)
		ctx := k.Context()
		got := make(chan error, 1)
		for n := int64(1); n < 12; n++ {
			c.gate(n) // the goroutine that acquires the share is stopped at its n-th reading of the clock
			go func() {
				s, err := l.Acquire(ctx, "a", time.Second, WithShared())
				switch {
				case err != nil:
				case s.outer != nil && s.Remaining() > 0:
					err = errShared
				default:
					_ = s.Release(ctx)
				}
				got <- err
			}()
			synctest.Wait()
			if len(got) > 0 { // it reads the clock less often
				c.left.Store(-1)
				require.ErrorIs(t, <-got, errShared)
				break
			}
			require.NoError(t, k.Release(bg))
			close(c.open)
			require.NotErrorIs(t, <-got, errShared, "look %d", n)
			require.Empty(t, k.family.shares)
			k = take(t, l, "a", 10*time.Second)
			ctx = k.Context()
		}
		require.NoError(t, k.Release(bg))
	})
}

func TestAShareExtendsChecksAndReportsProgressOfItsLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 3*time.Second, WithAutoExtend(), WithProgress(5*time.Second))
		s := shared(t, k)
		require.NoError(t, s.Extend(bg, 4*time.Second))
		require.Greater(t, k.Remaining(), 3*time.Second)
		require.NoError(t, s.Check(bg))
		fl.answered()
		require.Equal(t, 3, fl.orders(command.Inspect))
		for range 10 {
			pass(4 * time.Second)
			s.Progress()
		}
		require.NoError(t, s.Context().Err())
		for _, m := range fl.masters {
			m.Del("a")
		}
		require.ErrorIs(t, s.Check(bg), ErrLost)
		require.ErrorIs(t, context.Cause(k.Context()), ErrLost)
	})
}

// A share that outlived its lock would let work go on without a lock.
func TestAllSharesEndWithTheirLock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		shares := []*Lock{shared(t, k), shared(t, k), shared(t, k)}
		require.NoError(t, k.Release(bg))
		for _, s := range shares {
			require.LessOrEqual(t, s.Remaining(), time.Duration(0))
			require.ErrorIs(t, s.Check(bg), ErrReleased)
			require.ErrorIs(t, s.Release(bg), ErrReleased)
		}
	})
}

// Work under a share must end before the lock does, like other work.
func TestTheContextsOfAllSharesEndAtTheStopMargin(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.Acquire(bg, "a", 10*time.Second, WithStopMargin(2*time.Second))
		require.NoError(t, err)
		var all []context.Context
		for range 3 {
			s, err := l.Acquire(context.WithoutCancel(k.Context()), "a", 100*time.Millisecond, WithShared())
			require.NoError(t, err)
			all = append(all, s.Context())
		}
		pass(k.Remaining() - time.Second)
		for _, ctx := range all { // Err would end its own context
			select {
			case <-ctx.Done():
			default:
				require.Fail(t, "the context of a share has not ended")
			}
		}
		require.Error(t, context.Cause(k.Context()))
		require.NoError(t, k.Release(bg))
	})
}

// The goroutine that ends the lock has not come to the share yet. Otherwise a share that reports a loss would say that it was
// released in time.
func TestAShareThatIsReleasedWhileItsLockIsEndedReportsTheLoss(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 3*time.Second)
		s := shared(t, k)
		inner := shared(t, s)
		e := ending{lk: k, cause: k.lostBy(k.loss()), keys: undoByLibrary, at: k.l.now()}
		k.mu.Lock()
		e.beginLocked()
		k.mu.Unlock()
		require.ErrorIs(t, s.Err(), ErrLost)
		released, innerReleased := s.Release(bg), inner.Release(bg)
		e.finish()
		require.ErrorIs(t, released, ErrLost)
		require.ErrorIs(t, innerReleased, ErrLost)
	})
}
