package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// leads starts Lead, and returns a function that waits for its end.
func leads(ctx context.Context, l *Locker, fn func(ctx context.Context, k *Lock) error, opts ...LockOption) (ended func() error) {
	return leadsFor(ctx, l, 3*time.Second, fn, opts...)
}

func leadsFor(ctx context.Context, l *Locker, ttl time.Duration,
	fn func(ctx context.Context, k *Lock) error, opts ...LockOption,
) (ended func() error) {
	done := make(chan error, 1)
	go func() { done <- l.Lead(ctx, "a", ttl, fn, opts...) }()
	return func() error { return <-done }
}

func TestOneOfTheProcessesLeadsAndTheNextOneFollowsIt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		var leading, terms atomic.Int32
		term := func(ctx context.Context, _ *Lock) error {
			require.EqualValues(t, 1, leading.Add(1))
			defer leading.Add(-1)
			terms.Add(1)
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute): // resigns
			}
			return nil
		}
		var ends []func() error
		for range 3 {
			ends = append(ends, leads(ctx, fl.process().locker(), term))
		}
		pass(10*time.Minute + time.Second + 10*lateness())
		require.EqualValues(t, 1, leading.Load())
		require.EqualValues(t, 11, terms.Load(), "the next process leads at once")
		cancel()
		for _, end := range ends {
			require.ErrorIs(t, end(), context.Canceled)
		}
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

// No bound on the hold applies that the call itself does not have: neither the usual default nor that
// of WithDefaults, also if the call switches it off.
func TestALeadHasNoBoundOnTheHold(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		ctx, cancel := context.WithTimeout(bg, 61*time.Minute)
		defer cancel()
		l := fl.locker(WithDefaults(WithMaxHold(time.Hour)))
		var leads sync.WaitGroup
		for name, opts := range map[string][]LockOption{
			"a": nil,
			"b": {Without(WithMaxHold(time.Second))},
			"c": {WithMaxHold(time.Minute), Without(WithMaxHold(time.Second))},
		} {
			leads.Go(func() {
				terms := 0
				err := l.Lead(ctx, name, time.Hour, func(ctx context.Context, k *Lock) error {
					terms++
					assert.Equal(t, NoMaxHold, k.lease.Terms.MaxHold, "not the bound of Do either, which is a day")
					<-ctx.Done()
					return nil
				}, opts...)
				assert.ErrorIs(t, err, context.DeadlineExceeded, name)
				assert.Equal(t, 1, terms, name)
			})
		}
		leads.Wait()
	})
}

// The function ignores the end of its lock for minutes. Meanwhile its own process does not campaign.
func TestAProcessDoesNotCampaignWhileItsFunctionRuns(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		terms := 0
		end := leads(ctx, fl.locker(), func(ctx context.Context, _ *Lock) error {
			if terms++; terms == 1 {
				for _, m := range fl.masters {
					m.Del("a")
				}
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), ErrLost)
				pass(5 * time.Minute)
				require.Zero(t, fl.keys("a"), "nothing campaigns")
				return errWork // is dropped, because the lock was lost
			}
			cancel()
			return nil
		})
		require.ErrorIs(t, end(), context.Canceled)
		require.Equal(t, 2, terms)
	})
}

func TestAnErrorOfTheLeaderEndsItsLeadAndReleases(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		end := leads(bg, fl.locker(), func(context.Context, *Lock) error { return errWork })
		require.Equal(t, errWork, end())
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestAPanicOfTheLeaderReleasesAndContinues(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		require.PanicsWithValue(t, "leader", func() {
			_ = l.Lead(bg, "a", time.Second, func(context.Context, *Lock) error { panic("leader") })
		})
		fl.answered()
		require.Zero(t, fl.keys("a"))
	})
}

func TestALeaderThatReturnsAtOncePausesLongerEachTime(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		var terms []time.Time
		end := leads(ctx, fl.locker(), func(context.Context, *Lock) error {
			terms = append(terms, time.Now())
			return nil
		})
		pass(10 * time.Minute)
		cancel()
		require.ErrorIs(t, end(), context.Canceled)
		require.GreaterOrEqual(t, terms[1].Sub(terms[0]), 100*time.Millisecond)
		require.LessOrEqual(t, terms[1].Sub(terms[0]), 200*time.Millisecond)
		require.Less(t, len(terms), 600, "at the end about every 5 s")
		require.Greater(t, len(terms), 60)
	})
}

func TestALeaderThatLedForLongPausesShortly(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		var ended time.Time
		terms := 0
		end := leads(ctx, fl.locker(), func(context.Context, *Lock) error {
			if terms++; terms > 10 {
				require.LessOrEqual(t, time.Since(ended), 200*time.Millisecond)
			}
			if terms >= 10 {
				pass(10 * time.Second)
			}
			ended = time.Now()
			if terms == 20 {
				cancel()
			}
			return nil
		})
		require.ErrorIs(t, end(), context.Canceled)
		require.Equal(t, 20, terms)
	})
}

func TestTheEndOfTheCallersContextEndsTheLead(t *testing.T) {
	for name, test := range map[string]struct {
		returned error
		work     bool
	}{"nothing": {nil, false}, "the context's error": {context.Canceled, false}, "its own": {errWork, true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				ctx, cancel := context.WithCancelCause(bg)
				end := leads(ctx, fl.locker(), func(ctx context.Context, k *Lock) error {
					cancel(errStop)
					<-ctx.Done()
					require.Positive(t, k.Remaining())
					return test.returned
				})
				err := end()
				require.ErrorIs(t, err, errStop)
				if test.work {
					require.ErrorIs(t, err, errWork)
				} else {
					require.Equal(t, errStop, err)
				}
				fl.answered()
				require.Zero(t, fl.keys("a"))
			})
		})
	}
}

func TestTheEndOfTheLockerEndsTheLead(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		end := leads(bg, l, func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			return ctx.Err()
		})
		fl.answered()
		require.Equal(t, 3, fl.keys("a"))
		require.NoError(t, l.Close(bg))
		err := end()
		require.ErrorIs(t, err, ErrClosed)
		require.EqualError(t, err, `redlock: locker closed: "a"`)
		require.ErrorIs(t, l.Lead(bg, "a", time.Second, nil), ErrClosed)
	})
}

// Lead waits for a holder and for nodes, whatever the options, and it has no bound of 24 h.
func TestALeadIsEndedByNoOptionThatBoundsAWait(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.masters[0].Stop()
		fl.masters[1].Stop()
		ctx, cancel := context.WithCancel(bg)
		end := leadsFor(ctx, fl.locker(WithDefaults(WithMaxHold(time.Minute))), time.Hour, func(ctx context.Context, _ *Lock) error {
			pass(2 * time.Minute) // longer than the bound of the options
			require.NoError(t, ctx.Err())
			cancel()
			return nil
		}, WithWait(time.Second), WithFailFast())
		pass(time.Minute)
		require.NoError(t, fl.masters[0].Restart(true))
		require.NoError(t, fl.masters[1].Restart(true))
		require.ErrorIs(t, end(), context.Canceled)
		err := fl.locker().Lead(bg, "", time.Second, nil)
		require.ErrorIs(t, err, ErrInvalid)
	})
}

func TestALeaderThatHangsLosesItsLockWithProgress(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		hangs, resume := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(bg)
		first := leads(ctx, fl.process().locker(), func(ctx context.Context, _ *Lock) error {
			close(hangs)
			<-resume
			return ctx.Err()
		}, WithProgress(10*time.Second))
		<-hangs
		second := leads(ctx, fl.process().locker(), func(context.Context, *Lock) error {
			close(resume)
			cancel()
			return nil
		})
		require.ErrorIs(t, first(), context.Canceled)
		require.ErrorIs(t, second(), context.Canceled)
	})
}

// WithStopMargin ends the context while the lock is held. The error of fn is then that of an ended lock.
func TestALeaderThatWasStoppedCampaignsAgain(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(bg)
		terms := 0
		end := leadsFor(ctx, fl.locker(), 10*time.Second, func(ctx context.Context, k *Lock) error {
			if terms++; terms == 1 {
				fl.masters[0].Freeze()
				fl.masters[1].Freeze()
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), ErrLost)
				require.Positive(t, k.Remaining(), "still held")
				fl.masters[0].Unfreeze()
				fl.masters[1].Unfreeze()
				return ctx.Err()
			}
			cancel()
			return nil
		}, WithStopMargin(4*time.Second))
		require.ErrorIs(t, end(), context.Canceled)
		require.Equal(t, 2, terms)
	})
}

// Only the bare error of the context is dropped.
func TestAnErrorOfTheLeaderIsNotDroppedBecauseItWrapsTheContexts(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancelCause(bg)
		end := leads(ctx, fl.locker(), func(ctx context.Context, _ *Lock) error {
			cancel(errStop)
			<-ctx.Done()
			return errors.Join(ctx.Err(), errWork)
		})
		err := end()
		require.ErrorIs(t, err, errStop)
		require.ErrorIs(t, err, errWork)
	})
}

func TestTheCauseIsNotRepeated(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		ctx, cancel := context.WithCancelCause(bg)
		end := leads(ctx, l, func(ctx context.Context, _ *Lock) error {
			cancel(errStop)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.Equal(t, errStop, end())
		cause := fmt.Errorf("by a signal: %w", errStop)
		ctx, cancel = context.WithCancelCause(bg)
		end = leads(ctx, l, func(ctx context.Context, _ *Lock) error {
			cancel(cause)
			<-ctx.Done()
			return errStop
		})
		require.Equal(t, cause, end())
		err := l.Do(bg, "a", 3*time.Second, func(ctx context.Context, _ *Lock) error {
			fl.each(func(m *fakeredis.Master) { m.Del("a") })
			<-ctx.Done()
			return context.Cause(ctx)
		})
		require.Equal(t, 1, strings.Count(err.Error(), ErrLost.Error()), "%v", err)
	})
}

// The lock's context ends when the caller's does, so a leader stops at once.
func TestALeaderIsToldOfTheEndOfTheCallersContext(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		end := leads(ctx, fl.locker(), func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.Equal(t, 5*time.Second, elapsed(func() { require.Equal(t, context.DeadlineExceeded, end()) }))
	})
}

// The machine is suspended, and no timer has run yet.
func TestALeaderIsToldOfTheEndOfTheCallersLock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		outer := take(t, l, "b", 5*time.Second)
		end := leadsFor(outer.Context(), l, 2*time.Minute, func(ctx context.Context, k *Lock) error {
			fl.clock.Suspend(10 * time.Second)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.Positive(t, k.Remaining())
			return ctx.Err()
		})
		require.ErrorIs(t, end(), ErrLost)
	})
}

// A share would lead beside the lock that it shares.
func TestALeadIsNoShare(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithDefaults(WithShared()))
		k := take(t, l, "a", time.Minute)
		require.ErrorIs(t, l.Lead(k.Context(), "a", time.Second, nil), ErrAlreadyHeld)
		require.NoError(t, k.Release(bg))
	})
}

// Otherwise the reason for which the function could not finish its work would be lost.
func TestALeadThatCloseEndsReturnsTheErrorOfTheFunction(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		var done <-chan error
		err := l.Lead(bg, "a", time.Minute, func(ctx context.Context, _ *Lock) error {
			done = begunClose(bg, l)
			<-ctx.Done()
			return errSome
		})
		require.ErrorIs(t, err, ErrClosed)
		require.ErrorIs(t, err, errSome)
		require.Equal(t, `redlock: locker closed: "a"; `+errSome.Error(), err.Error())
		require.NoError(t, <-done)
	})
}

// The function returns the error of another call that Close ended.
func TestALeadThatCloseEndsNamesItsLockBesideAnother(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		end := leads(bg, l, func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			return second(l.Acquire(bg, "b", time.Second))
		})
		pass(50 * time.Millisecond)
		require.NoError(t, l.Close(bg))
		require.EqualError(t, end(), `redlock: locker closed: "a"; redlock: locker closed: "b"`)
	})
}

func TestALeadThatCloseEndsNamesItsLockOnce(t *testing.T) {
	for name, fn := range map[string]func(ctx context.Context, k *Lock) error{
		"in the pause":                     func(context.Context, *Lock) error { return nil },
		"the function returns nil":         func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return nil },
		"the function returns the cause":   func(ctx context.Context, _ *Lock) error { <-ctx.Done(); return context.Cause(ctx) },
		"the function returns Lock.Err":    func(ctx context.Context, k *Lock) error { <-ctx.Done(); return k.Err() },
		"the function has joined Lock.Err": func(ctx context.Context, k *Lock) error { <-ctx.Done(); return errors.Join(errSome, k.Err()) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				end := leads(bg, l, fn)
				pass(50 * time.Millisecond)
				require.NoError(t, l.Close(bg))
				err := end()
				require.ErrorIs(t, err, ErrClosed)
				require.Equal(t, 1, strings.Count(err.Error(), `redlock: locker closed: "a"`), "%v", err)
				require.Equal(t, 1, strings.Count(err.Error(), "locker closed"), "%v", err)
			})
		})
	}
}
