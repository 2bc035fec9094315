package redlock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

// docs/dev/hazards.md H109: a call under a lock's own context does not acquire that lock again.
func TestALockIsNotAcquiredAgainByItsHolder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		outer, err := l.AcquireAll(bg, []string{"a", "b"}, 10*time.Second)
		require.NoError(t, err)
		inner, err := l.Acquire(outer.Context(), "c", 10*time.Second)
		require.NoError(t, err)
		fl.answered()
		sent := fl.orders(command.Acquire, command.Inspect)
		for _, ctx := range []context.Context{
			outer.Context(),
			inner.Context(), // a lock's outer lock counts as well
			context.WithValue(inner.Context(), key("x"), "y"),
			context.WithoutCancel(inner.Context()),
		} {
			for name, acquire := range map[string]func() (*Lock, error){
				"one":       func() (*Lock, error) { return l.Acquire(ctx, "a", time.Second) },
				"one, once": func() (*Lock, error) { return l.TryAcquire(ctx, "b", time.Second) },
				"all":       func() (*Lock, error) { return l.AcquireAll(ctx, []string{"b", "a"}, time.Second) },
				"overlap":   func() (*Lock, error) { return l.TryAcquireAll(ctx, []string{"x", "b"}, time.Second) },
				"shared in part": func() (*Lock, error) {
					return l.AcquireAll(ctx, []string{"a", "x"}, time.Second, WithShared())
				},
				"do": func() (*Lock, error) {
					return nil, l.Do(ctx, "a", time.Second, func(context.Context, *Lock) error { panic("entered") })
				},
			} {
				_, err := acquire()
				require.ErrorIs(t, err, ErrAlreadyHeld, name)
			}
		}
		require.Equal(t, sent, fl.orders(command.Acquire, command.Inspect), "nothing is asked")
		require.NoError(t, inner.Release(bg))
		require.NoError(t, outer.Release(bg))
	})
}

// docs/dev/hazards.md H109: two goroutines within one Do. Without the check both would have
// entered.
func TestTwoGoroutinesUnderOneDoDoNotBothEnter(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		refused := make(chan error, 2)
		err := l.Do(bg, "a", 10*time.Second, func(ctx context.Context, _ *Lock) error {
			for range cap(refused) {
				go func() {
					refused <- l.Do(ctx, "a", 10*time.Second, func(context.Context, *Lock) error { panic("entered") })
				}()
			}
			require.ErrorIs(t, <-refused, ErrAlreadyHeld)
			require.ErrorIs(t, <-refused, ErrAlreadyHeld)
			return nil
		})
		require.NoError(t, err)
	})
}

// docs/dev/hazards.md H109: a lock that has ended blocks no call, however it ended.
func TestAnEndedOuterLockDoesNotCount(t *testing.T) {
	for name, end := range map[string]func(*testbed, *Lock) error{
		"released": func(_ *testbed, k *Lock) error { return k.Release(bg) },
		"run out":  func(*testbed, *Lock) error { pass(2 * time.Second); return nil },
		"run out while suspended": func(fl *testbed, _ *Lock) error {
			fl.clock.Suspend(2 * time.Second)
			for _, m := range fl.masters {
				m.Del("a")
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := take(t, l, "a", time.Second)
				ctx := context.WithoutCancel(k.Context())
				require.NoError(t, end(fl, k))
				again, err := l.Acquire(ctx, "a", time.Second, WithShared())
				require.NoError(t, err)
				require.Nil(t, again.outer, "a lock of its own")
				require.NotEqual(t, k.Token(), again.Token())
				require.NoError(t, again.Release(bg))
			})
		})
	}
}

func TestOtherNamesAndOtherLockersAreNotHeldAlready(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		other, err := l.TryAcquire(k.Context(), "b", time.Second)
		require.NoError(t, err)
		_, err = fl.locker().TryAcquire(k.Context(), "a", time.Second)
		require.ErrorIs(t, err, ErrHeld, "the nodes say so")
		require.NoError(t, k.Release(bg))
		require.NoError(t, other.Context().Err(), "a lock of its own")
		require.NoError(t, other.Release(bg))
	})
}

func TestWithSharedIsAPlainAcquisitionWithoutALock(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second, WithShared())
		require.Equal(t, 3, fl.keys("a"))
		require.NoError(t, k.Release(bg))
	})
}

// The innermost lock of the context has one of the names, and one around it has both.
func TestAShareIsOfTheLockThatHasAllNames(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		both, err := l.AcquireAll(bg, []string{"a", "b"}, 10*time.Second)
		require.NoError(t, err)
		one, err := l.Acquire(both.Context(), "b", 10*time.Second, WithShared())
		require.NoError(t, err)
		share, err := l.AcquireAll(one.Context(), []string{"a", "b"}, 10*time.Second, WithShared())
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		require.NoError(t, one.Release(bg))
		require.NoError(t, both.Release(bg))
	})
}
