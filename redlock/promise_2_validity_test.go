package redlock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 2, honest validity: a handle knows how long it is still safe. The validity counts from
// before the first byte of the attempt, less drift and a margin for late timers, on a clock that
// counts suspended time. The context ends with it, with a cause.

// How long a lock is valid.

// validity returns how long a lock with this TTL is valid by default: less 1 % and 2 ms for clocks
// that drift, and 5 ms (or a twentieth of a short TTL) for timers that are late.
func validity(ttl time.Duration) time.Duration {
	return ttl - ttl/100 - 2*time.Millisecond - min(ttl/20, 5*time.Millisecond)
}

func TestTheValidityIsTheTTLLessDriftAndAMarginForTimers(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  16800 * time.Microsecond,
		100 * time.Millisecond: 92 * time.Millisecond,
		time.Second:            983 * time.Millisecond,
		time.Minute:            59393 * time.Millisecond,
		time.Hour:              time.Hour - 36*time.Second - 7*time.Millisecond,
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			lock := s.process().take("x", ttl)
			require.Equal(t, want, lock.Remaining())
			require.Equal(t, want, validity(ttl))
		})
	}
}

func TestTheValidityCountsFromBeforeTheFirstSend(t *testing.T) {
	for _, slow := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 499 * time.Millisecond} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.slow(slow)
			require.Equal(t, validity(10*time.Second)-slow, p.take("x", 10*time.Second).Remaining())
		})
	}
}

func TestTheWaitForAHolderDoesNotCount(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		other, same := b.wants(bg, []string{"x"}, 10*time.Second), a.wants(bg, []string{"x"}, 10*time.Second)
		pass(30 * time.Second)
		require.NoError(t, lock.Release(bg))
		for _, waiting := range []<-chan result{same, other} {
			lock = s.get(waiting)
			require.InDelta(t, validity(10*time.Second), lock.Remaining(), float64(100*time.Millisecond))
			require.NoError(t, lock.Release(bg))
		}
	})
}

func TestTheValidityOfALockThatIsHandedOverCountsFromTheRelease(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		waiting := p.wants(bg, []string{"x"}, 10*time.Second)
		s.slow(100 * time.Millisecond)
		require.NoError(t, lock.Release(bg))
		require.Equal(t, validity(10*time.Second)-100*time.Millisecond, s.get(waiting).Remaining())
	})
}

// suspendedAttempt tries to acquire x for 10 s. The machine is suspended for d while the answers are on
// their way.
func (p *process) suspendedAttempt(d time.Duration) error {
	p.s.slow(time.Millisecond)
	attempt := make(chan error, 1)
	go func() { _, err := p.TryAcquire(bg, "x", 10*time.Second); attempt <- err }()
	synctest.Wait()
	p.clock.Suspend(d - time.Millisecond)
	return <-attempt
}

func TestAQuorumWithoutValidityIsNoLock(t *testing.T) {
	for late, want := range map[time.Duration]error{
		validity(10*time.Second) - 1: nil,
		validity(10 * time.Second):   redlock.ErrTooLate,
		time.Hour:                    redlock.ErrTooLate,
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			require.ErrorIs(t, s.process().suspendedAttempt(late), want)
			require.Equal(t, want == nil, len(s.left()) > 0)
		})
	}
}

// The context.

func TestTheContextEndsByItselfWithACauseBeforeTheKeysDo(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		ended := make(chan error, 1)
		ctx := lock.Context()
		context.AfterFunc(ctx, func() { ended <- context.Cause(ctx) })
		pass(validity(10*time.Second) - 1)
		require.Empty(t, ended)
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		pass(1)
		require.ErrorIs(t, <-ended, redlock.ErrLost)
	})
}

func TestTheStopMarginEndsTheContextInTime(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second, redlock.WithStopMargin(2*time.Second))
		ctx := lock.Context()
		pass(validity(10*time.Second) - 2*time.Second - 1)
		require.NoError(t, ctx.Err())
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
		require.Equal(t, 2*time.Second, lock.Remaining(), "the lock itself is valid")
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		require.NoError(t, lock.Release(bg))
	})
}

func TestTheMaximumHoldEndsALockThatIsExtended(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second, redlock.WithAutoExtend(), redlock.WithMaxHold(time.Minute))
		ctx := lock.Context()
		pass(time.Minute - 1)
		require.NoError(t, ctx.Err())
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrMaxHold)
		require.Empty(t, s.having("x"))
	})
}

func TestTheWorkOfDoIsToldWhenItsLockEnds(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		err := p.Do(bg, "x", 10*time.Second, func(ctx context.Context, lock *redlock.Lock) error {
			s.del("x")
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			require.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			return nil
		})
		require.ErrorIs(t, err, redlock.ErrLost, "the caller is told as well")
	})
}

func TestAShareEndsWithItsLock(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", 10*time.Second)
		share, err := p.Acquire(context.WithoutCancel(lock.Context()), "x", time.Second, redlock.WithShared())
		require.NoError(t, err)
		ctx := share.Context()
		require.LessOrEqual(t, share.Remaining(), lock.Remaining())
		require.NoError(t, lock.Release(bg))
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrReleased)
		require.LessOrEqual(t, share.Remaining(), time.Duration(0))
	})
}

func TestAContextThatIsBoundToALockEndsWithIt(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		ctx, cancel := lock.Bind(context.WithValue(bg, systemKey{}, "a request's"))
		defer cancel()
		require.Equal(t, "a request's", ctx.Value(systemKey{}))
		pass(lock.Remaining())
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	})
}

type systemKey struct{}

// Suspends, and clocks that are wrong.

func TestTheTimeOfASuspendCounts(t *testing.T) {
	for _, opts := range [][]redlock.LockOption{nil, {redlock.WithAutoExtend()}} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			lock := p.take("x", 10*time.Second, opts...)
			ctx := lock.Context()
			p.clock.Suspend(10 * time.Second) // no timer has run when the work continues
			require.Error(t, ctx.Err())
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
			require.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			require.ErrorIs(t, lock.Release(bg), redlock.ErrLost)
		})
	}
}

func TestASuspendIsNoticedSoonByThoseWhoOnlyWait(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		ctx := p.take("x", time.Hour).Context()
		done := ctx.Done()
		pass(time.Minute)
		p.clock.Suspend(time.Hour)
		require.LessOrEqual(t, elapsed(func() { <-done }), time.Second)
	})
}

func TestAClockThatIsSetBackRevivesNoLock(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", 10*time.Second)
		p.clock.Jump(time.Minute)
		require.ErrorIs(t, lock.Check(bg), redlock.ErrLost)
		p.clock.Jump(-time.Minute)
		require.LessOrEqual(t, lock.Remaining(), time.Duration(0))
		require.ErrorIs(t, lock.Extend(bg, time.Second), redlock.ErrLost)
	})
}

func TestRemainingNeedsNoTimer(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", 10*time.Second)
		p.clock.Stall() // no timer of the process runs
		p.clock.Jump(4 * time.Second)
		require.Equal(t, validity(10*time.Second)-4*time.Second, lock.Remaining())
		p.clock.Jump(6 * time.Second)
		require.Negative(t, lock.Remaining())
		require.Error(t, lock.Context().Err())
		p.clock.Resume()
	})
}

func TestASlowClockWithinTheAllowanceEndsALockBeforeItsKeys(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		p.clock.SetRate(0.991)
		ctx := p.take("x", 10*time.Second).Context()
		pass(10*time.Second - time.Millisecond)
		require.Error(t, ctx.Err(), "the keys have a millisecond left")
	})
}

func TestOnlyRelativeTimesAreSent(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.masters[0].SetClock(time.Hour)
		s.masters[1].SetClock(-time.Hour)
		lock := p.take("x", 10*time.Second)
		require.NoError(t, lock.Extend(bg, 20*time.Second))
		synctest.Wait()
		for _, m := range s.masters {
			require.Equal(t, 20*time.Second, m.TTL("x"))
		}
	})
}

// Extensions.

func TestAnExtensionCountsFromBeforeItsFirstSend(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		s.slow(100 * time.Millisecond)
		require.NoError(t, lock.Extend(bg, 20*time.Second))
		require.Equal(t, validity(20*time.Second)-100*time.Millisecond, lock.Remaining())
	})
}

func TestAnExtensionNeverShortens(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		require.NoError(t, lock.Extend(bg, time.Second))
		require.Equal(t, validity(10*time.Second), lock.Remaining())
		synctest.Wait()
		for _, m := range s.masters {
			require.Equal(t, 10*time.Second, m.TTL("x"))
		}
	})
}

func TestAnExtensionThatFailsChangesNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		s.freeze(1, 2)
		require.ErrorIs(t, lock.Extend(bg, 20*time.Second), redlock.ErrNoQuorum)
		require.Equal(t, validity(10*time.Second)-nodeTimeout, lock.Remaining())
		require.NoError(t, lock.Context().Err())
		s.heal()
		require.NoError(t, lock.Extend(bg, 20*time.Second))
	})
}

func TestNothingIsExtendedOnceTheValidityIsOver(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", 10*time.Second)
		s.forget()
		p.clock.Suspend(lock.Remaining())
		require.Equal(t, []int{1, 2, 3}, s.having("x"), "the nodes would grant it")
		require.ErrorIs(t, lock.Extend(bg, time.Minute), redlock.ErrLost)
		require.NotContains(t, fmt.Sprint(s.sent(0)), "60000")
	})
}

func TestAnExtensionThatWaitedForItsConnectionIsNotSentAfterTheEnd(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", 2*time.Second)
		s.freeze(3)
		p.conn(3).Drop() // the next connection is not ready while n3 is frozen
		synctest.Wait()
		require.NoError(t, lock.Extend(bg, time.Minute), "by two of three nodes")
		pass(validity(2 * time.Second)) // the end as it was when n3 was to be asked
		s.heal(3)
		pass(100 * time.Millisecond)
		require.Equal(t, []int{1, 2}, s.having("x"), "n3 was asked to extend for a minute")
	})
}

func TestALateShorterExtensionShortensNoKey(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", 10*time.Second)
		for n := range 3 {
			a.conn(n + 1).HoldRequests()
		}
		require.ErrorIs(t, lock.Extend(bg, time.Second), redlock.ErrNoQuorum)
		claim, err := lock.Detach()
		require.NoError(t, err)
		lock, err = b.Resume(bg, claim)
		require.NoError(t, err)
		require.NoError(t, lock.Extend(bg, time.Minute))
		for n := range 3 {
			a.conn(n + 1).Release()
		}
		synctest.Wait()
		for _, m := range s.masters {
			require.Equal(t, time.Minute, m.TTL("x"))
		}
	})
}

func TestAnExtensionThatFindsTheLockGoneEndsItAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Minute)
		s.del("x", 1, 3)
		require.ErrorIs(t, lock.Extend(bg, time.Minute), redlock.ErrLost)
		require.ErrorIs(t, context.Cause(lock.Context()), redlock.ErrLost)
		require.LessOrEqual(t, lock.Remaining(), time.Duration(0))
		require.Empty(t, s.having("x"), "what is left of it is undone")
	})
}

func TestALockExtendsItselfWhileAQuorumAnswersAndNoLonger(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second, redlock.WithAutoExtend())
		ctx := lock.Context()
		for range 10 {
			pass(time.Minute)
			require.Greater(t, lock.Remaining(), 6*time.Second)
		}
		s.refuse("LOADING Redis is loading the dataset in memory", 1, 2)
		left := lock.Remaining()
		pass(left - 1)
		require.NoError(t, ctx.Err(), "a failed extension does not end it")
		pass(1)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	})
}

func TestAFailedExtensionIsTriedAgainSoon(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 30*time.Second, redlock.WithAutoExtend())
		s.refuse("LOADING Redis is loading the dataset in memory", 1, 2)
		pass(validity(30*time.Second)/3 + time.Millisecond)
		s.heal()
		pass(time.Second)
		require.Greater(t, lock.Remaining(), 28*time.Second)
	})
}

func TestALockThatAMajorityLostEndsWithinAThirdOfItsValidity(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 30*time.Second, redlock.WithAutoExtend())
		ctx := lock.Context()
		s.restart(1, 2)
		pass(validity(30*time.Second)/3 + time.Millisecond)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
		require.Empty(t, s.left())
	})
}

func TestAWorkerThatMakesNoProgressLosesItsLock(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 3*time.Second, redlock.WithAutoExtend(), redlock.WithProgress(5*time.Second))
		ctx := lock.Context()
		for range 10 {
			pass(4 * time.Second)
			lock.Progress()
		}
		require.NoError(t, ctx.Err())
		require.InDelta(t, 6.5, elapsed(func() { <-ctx.Done() }).Seconds(), 1.5)
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	})
}

// Check and Resume believe what the nodes say, and no more.

func TestCheckFindsWhatNoClockCan(t *testing.T) {
	for what, spoil := range map[string]func(s *system, token string, n int){
		"the keys were deleted":         func(s *system, _ string, n int) { s.del("x", n) },
		"another has them":              func(s *system, _ string, n int) { s.set("x", "another's", time.Minute, n) },
		"they are no locks":             func(s *system, _ string, n int) { s.masters[n-1].PushList("x") },
		"they have no expiry":           func(s *system, token string, n int) { s.set("x", token, 0, n) },
		"they have next to none of TTL": func(s *system, token string, n int) { s.set("x", token, 2*time.Millisecond, n) },
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			lock := s.process().take("x", 10*time.Second)
			spoil(s, lock.Token(), 1)
			require.NoError(t, lock.Check(bg), what)
			spoil(s, lock.Token(), 2)
			require.ErrorIs(t, lock.Check(bg), redlock.ErrLost, what)
			require.ErrorIs(t, context.Cause(lock.Context()), redlock.ErrLost)
		})
	}
}

func TestCheckShortensTheValidityToWhatAQuorumSupports(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		ctx := lock.Context()
		s.set("x", lock.Token(), 2*time.Second, 1)
		s.set("x", lock.Token(), 5*time.Second, 2)
		s.slow(100 * time.Millisecond)
		require.NoError(t, lock.Check(bg))
		left := lock.Remaining()
		require.Equal(t, validity(5*time.Second)-time.Millisecond-100*time.Millisecond, left)
		s.slow(0)
		s.set("x", lock.Token(), time.Hour)
		require.NoError(t, lock.Check(bg))
		require.Equal(t, left, lock.Remaining(), "it never lengthens it")
		require.Equal(t, left, elapsed(func() { <-ctx.Done() }))
		require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	})
}

func TestCheckBelievesTheKeyThatEndsFirst(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		for _, early := range []string{"a", "b", "c"} {
			lock := s.get(s.process().wants(bg, []string{"a", "b", "c"}, 10*time.Second))
			s.set(early, lock.Token(), 5*time.Second)
			require.NoError(t, lock.Check(bg))
			require.Equal(t, validity(5*time.Second)-time.Millisecond, lock.Remaining(), early)
			s.del(early)
			require.ErrorIs(t, lock.Check(bg), redlock.ErrLost, early)
			require.Empty(t, s.left())
		}
	})
}

func TestCheckWithoutAQuorumChangesNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		s.freeze(1, 2)
		require.ErrorIs(t, lock.Check(bg), redlock.ErrNoQuorum)
		require.Equal(t, validity(10*time.Second)-nodeTimeout, lock.Remaining())
		require.NoError(t, lock.Context().Err())
	})
}

func TestAResumedLockIsValidForWhatIsLeftOfItsKeys(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		claim, err := a.take("x", 10*time.Second).Detach()
		require.NoError(t, err)
		pass(4 * time.Second)
		s.slow(100 * time.Millisecond)
		lock, err := b.Resume(bg, claim)
		require.NoError(t, err)
		require.Equal(t, validity(6*time.Second)-time.Millisecond-100*time.Millisecond, lock.Remaining())
	})
}

func TestAClaimWhoseTimeIsOverIsNotResumed(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", 10*time.Second)
		claim, err := lock.Detach()
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(lock.Context()), redlock.ErrDetached)
		pass(10*time.Second - time.Millisecond)
		_, err = b.Resume(bg, claim)
		require.ErrorIs(t, err, redlock.ErrTooLate)
		pass(time.Millisecond)
		_, err = b.Resume(bg, claim)
		require.ErrorIs(t, err, redlock.ErrLost)
	})
}

// Contexts end before keys are deleted.

func TestAllContextsHaveEndedWhenTheKeysAreDeleted(t *testing.T) {
	for what, end := range map[string]func(lock *redlock.Lock){
		"a release": func(lock *redlock.Lock) { _ = lock.Release(bg) },
		"the end":   func(lock *redlock.Lock) { pass(lock.Remaining()) },
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			lock := p.take("x", 10*time.Second)
			share, err := p.Acquire(lock.Context(), "x", time.Second, redlock.WithShared())
			require.NoError(t, err)
			bound, cancel := lock.Bind(bg)
			defer cancel()
			all, open := []context.Context{lock.Context(), share.Context(), bound}, -1
			s.before(2, 1, func() { open = len(opened(all)) })
			end(lock)
			synctest.Wait()
			require.Zero(t, open, "%s: %d contexts were open when n2 deleted the key", what, open)
		})
	}
}

// opened returns the contexts that have not ended, without asking one that would look at the clock.
func opened(all []context.Context) (open []context.Context) {
	for _, ctx := range all {
		select {
		case <-ctx.Done():
		default:
			open = append(open, ctx)
		}
	}
	return open
}
