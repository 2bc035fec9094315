package redlock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

var errWork = errors.New("the work failed")

func TestDoHoldsTheLockWhileTheFunctionRuns(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		given := context.WithValue(context.Background(), key("user"), "me")
		err := l.Do(given, "a", 3*time.Second, func(ctx context.Context, k *Lock) error {
			require.Same(t, k.Context(), ctx)
			require.Equal(t, "me", ctx.Value(key("user")))
			for range 10 {
				pass(time.Second)
				require.Equal(t, 3, fl.keys("a"))
				require.NoError(t, ctx.Err())
			}
			return nil
		})
		require.NoError(t, err)
		fl.answered()
		require.Zero(t, fl.keys("a"))
		require.Empty(t, l.registry.locks)
	})
}

func TestDoReturnsTheFunctionsErrorOrTheAcquisitions(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		err := l.Do(context.Background(), "a", time.Second, func(context.Context, *Lock) error { return errWork })
		require.Equal(t, errWork, err)
		holder := take(t, fl.locker(), "a", time.Minute)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err = l.Do(ctx, "a", time.Second, func(context.Context, *Lock) error { panic("entered") })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorIs(t, l.Do(ctx, "", time.Second, nil), ErrInvalid)
		require.NoError(t, holder.Release(ctx))
	})
}

func TestDoJoinsTheLossToTheFunctionsError(t *testing.T) {
	for _, fnErr := range []error{nil, errWork} {
		for name, test := range map[string]struct {
			want error
			opts []LockOption
			lose func(fl *testbed)
		}{
			"run out": {ErrLost, nil, func(fl *testbed) { fl.clock.Suspend(time.Minute) }},
			"disowned": {ErrLost, nil, func(fl *testbed) {
				for _, m := range fl.masters {
					m.Del("a")
				}
			}},
			"maximum hold": {ErrMaxHold, []LockOption{WithMaxHold(2 * time.Second)}, func(*testbed) { pass(2 * time.Second) }},
		} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 3, func(fl *testbed) {
					err := fl.locker().Do(context.Background(), "a", 3*time.Second, func(context.Context, *Lock) error {
						test.lose(fl)
						return fnErr // the function has noticed nothing
					}, test.opts...)
					require.ErrorIs(t, err, test.want)
					require.Equal(t, fnErr != nil, errors.Is(err, errWork))
				})
			})
		}
	}
}

func TestTheFunctionsContextEndsWhenTheLockIsLost(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		err := fl.locker().Do(context.Background(), "a", 3*time.Second, func(ctx context.Context, _ *Lock) error {
			for _, m := range fl.masters {
				m.Del("a")
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, ErrLost)
	})
}

func TestTheCancellationOfTheCallersContextReachesTheFunction(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		given, cancel := context.WithCancelCause(context.Background())
		err := fl.locker().Do(given, "a", 3*time.Second, func(ctx context.Context, k *Lock) error {
			cancel(errWork)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), errWork)
			require.Greater(t, k.Remaining(), time.Duration(0), "the lock is held until the function returns")
			return ctx.Err()
		})
		require.Equal(t, context.Canceled, err)
		fl.answered()
		require.Zero(t, fl.keys("a"), "and released though the context is done")
	})
}

func TestAnUnconfirmedReleaseIsNoErrorOfDo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		err := fl.locker().Do(context.Background(), "a", 3*time.Second, func(context.Context, *Lock) error {
			fl.masters[0].Freeze()
			fl.masters[1].Freeze()
			return nil
		})
		require.NoError(t, err)
		fl.masters[0].Unfreeze()
		fl.masters[1].Unfreeze()
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestDoReleasesWhenTheFunctionPanicsAndThePanicContinues(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		require.PanicsWithValue(t, "at the disco", func() {
			_ = l.Do(context.Background(), "a", time.Minute, func(context.Context, *Lock) error { panic("at the disco") })
		})
		fl.answered()
		require.Zero(t, fl.keys("a"))
		require.Empty(t, l.registry.locks)
	})
}

func TestDoReleasesWhenTheFunctionEndsItsGoroutine(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		done := make(chan bool, 1)
		go func() {
			defer func() { done <- recover() == nil }()
			_ = l.Do(context.Background(), "a", time.Minute, func(context.Context, *Lock) error { runtime.Goexit(); return nil })
			t.Error("Do returned")
		}()
		require.True(t, <-done)
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestTheFunctionMayReleaseOrDetachTheLockItself(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		require.NoError(t, l.Do(bg, "a", time.Minute, func(ctx context.Context, k *Lock) error {
			require.NoError(t, k.Release(ctx))
			require.ErrorIs(t, context.Cause(ctx), ErrReleased)
			return nil
		}))
		var claim Claim
		require.Equal(t, errWork, l.Do(bg, "a", time.Minute, func(_ context.Context, k *Lock) (err error) {
			synctest.Wait() // an acquire that was not sent yet would be cancelled
			claim, err = k.Detach()
			require.NoError(t, err)
			return errWork
		}))
		fl.answered()
		require.Equal(t, 3, fl.keys("a"), "it lives on for whoever resumes it")
		k, err := l.Resume(bg, claim)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

func TestAShareWithinDoLivesAndEndsByItself(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		err := l.Do(context.Background(), "a", 3*time.Second, func(ctx context.Context, k *Lock) error {
			inner := l.Do(ctx, "a", 3*time.Second, func(ctx context.Context, s *Lock) error {
				require.Same(t, k, lockOf(s.keeper()))
				pass(10 * time.Second) // the outer lock is extended
				return ctx.Err()
			}, WithShared())
			require.NoError(t, inner)
			require.NoError(t, ctx.Err())
			return l.Do(ctx, "a", 3*time.Second, func(context.Context, *Lock) error { return errWork }, WithShared())
		})
		require.Equal(t, errWork, err)
	})
}

// The owner ends the lock while the share's work is running. Do must report that the work ran
// without a lock.
func TestDoUnderAShareSaysThatTheLockWasEndedByItsOwner(t *testing.T) {
	for _, test := range []struct {
		want error
		end  func(k *Lock) error
	}{
		{ErrReleased, func(k *Lock) error { return k.Release(bg) }},
		{ErrDetached, func(k *Lock) error { _, err := k.Detach(); return err }},
	} {
		inBubbles(t, 3, func(fl *testbed) {
			l := fl.locker()
			k := take(t, l, "a", time.Second)
			err := l.Do(k.Context(), "a", time.Second, func(shared context.Context, _ *Lock) error {
				require.NoError(t, test.end(k))
				require.ErrorIs(t, context.Cause(shared), test.want)
				return errWork
			}, WithShared())
			require.ErrorIs(t, err, test.want)
			require.ErrorIs(t, err, errWork)
		})
	}
}

func TestDoUnderAShareOfAShareSaysThatThatWasReleased(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Second)
		outer, err := l.TryAcquire(k.Context(), "a", time.Second, WithShared())
		require.NoError(t, err)
		err = l.Do(outer.Context(), "a", time.Second, func(ctx context.Context, _ *Lock) error {
			require.NoError(t, outer.Release(bg))
			return ctx.Err()
		}, WithShared())
		require.ErrorIs(t, err, ErrReleased)
		require.NoError(t, k.Release(bg))
	})
}

// The lock is held, and the share is not.
func TestAShareThatEndsDuringItsCheckIsNotHeld(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		for what, ask := range map[string]func(share *Lock) error{
			"check":  func(share *Lock) error { return share.Check(bg) },
			"extend": func(share *Lock) error { return share.Extend(bg, 10*time.Second) },
		} {
			share, err := l.TryAcquire(k.Context(), "a", time.Second, WithShared())
			require.NoError(t, err)
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Millisecond) })
			go func() { time.Sleep(50 * time.Millisecond); _ = share.Release(bg) }()
			require.ErrorIs(t, ask(share), ErrReleased, what)
			fl.each(func(m *fakeredis.Master) { m.SetDelay(0) })
		}
		require.NoError(t, k.Release(bg))
	})
}

// The context ends before the lock does. The work that returned an error for it is told why.
func TestDoSaysThatTheStopMarginEndedTheContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		for _, fnErr := range []error{nil, errWork} {
			err := fl.locker().Do(bg, "a", 10*time.Second, func(ctx context.Context, k *Lock) error {
				<-ctx.Done()
				require.Positive(t, k.Remaining())
				return fnErr
			}, WithStopMargin(4*time.Second), WithMaxHold(8*time.Second))
			if fnErr == nil {
				require.NoError(t, err, "the lock was held until the function returned")
				continue
			}
			require.ErrorIs(t, err, errWork)
			require.ErrorIs(t, err, ErrMaxHold)
		}
	})
}

func TestAnErrorOfTheWorkThatHasTheEndIsReturnedAsItIs(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		joined := func(ctx context.Context, k *Lock) error {
			<-ctx.Done()
			return fmt.Errorf("%w: %w", errWork, k.Err())
		}
		err := l.Do(bg, "a", 10*time.Second, joined, WithStopMargin(4*time.Second), WithMaxHold(8*time.Second))
		require.ErrorIs(t, err, ErrMaxHold)
		require.Equal(t, 1, strings.Count(err.Error(), ErrMaxHold.Error()), "%v", err)
		k := take(t, l, "a", time.Second)
		err = l.Do(k.Context(), "a", time.Second, func(ctx context.Context, s *Lock) error {
			require.NoError(t, k.Release(bg))
			return joined(ctx, s)
		}, WithShared())
		require.EqualError(t, err, errWork.Error()+`: redlock: lock released: "a"`)
		other := take(t, l, "b", time.Second)
		require.NoError(t, other.Release(bg))
		k = take(t, l, "a", time.Second)
		err = l.Do(k.Context(), "a", time.Second, func(context.Context, *Lock) error {
			require.NoError(t, k.Release(bg))
			return other.Err() // says nothing of this lock
		}, WithShared())
		require.ErrorContains(t, err, `redlock: lock released: "a"`)
		require.ErrorContains(t, err, `redlock: lock released: "b"`)
	})
}

// The text of Lock.Err is no match, and errors.Is is what callers ask.
func TestAnErrorThatOnlyPrintsTheEndMatchesIt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		err := l.Do(bg, "a", 10*time.Second, func(ctx context.Context, k *Lock) error {
			<-ctx.Done()
			return fmt.Errorf("work: %v", k.Err()) //nolint:errorlint // some do
		}, WithMaxHold(8*time.Second))
		require.ErrorIs(t, err, ErrMaxHold)
		require.ErrorContains(t, err, "work: ")
	})
}
