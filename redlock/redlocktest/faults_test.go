package redlocktest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

func TestWhatAnotherHoldsIsWaitedForUntilItIsReleased(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		release := q.HoldElsewhere(name, long)
		waits := make(chan error, 100)
		l := q.Locker(patient, redlock.WithTrace(&redlock.Trace{Waiting: func(e redlock.WaitEvent) { waits <- e.Err }}))
		got := make(chan error, 1)
		go func() {
			_, err := l.Acquire(t.Context(), name, ttl)
			got <- err
		}()
		var held *redlock.HeldError
		require.ErrorAs(t, <-waits, &held)
		require.Equal(t, redlocktest.OtherOwner, held.Owner)
		require.Empty(t, got)
		release()
		require.NoError(t, <-got)
		release() // nobody's any more: no harm
	})
}

func TestAnExpiredLockEndsAtOnceThoughItIsExtended(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		k := take(t, q.Locker(patient), redlock.WithAutoExtend())
		q.ExpireNow(name)
		lost(t, k)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		_, held := q.Holder(name)
		require.False(t, held)
		q.HoldElsewhere(name, ttl)
		require.ErrorIs(t, k.Release(t.Context()), redlock.ErrLost)
		owner, _ := q.Holder(name)
		require.Equal(t, redlocktest.OtherOwner, owner, "nothing of another's is released")
	})
}

func TestCheckFindsAStolenLock(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 5)
		k := take(t, q.Locker(patient))
		release := q.StealLock(name, long)
		require.NoError(t, k.Context().Err(), "nobody has told it")
		require.ErrorIs(t, k.Extend(t.Context(), ttl), redlock.ErrLost)
		lost(t, k)
		release()
		_, held := q.Holder(name)
		require.False(t, held)
	})
}

func TestAnExtensionFindsOutThatItsLockIsForgotten(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		k := take(t, q.Locker(patient), redlock.WithAutoExtend())
		q.DeleteKey(name)
		_, held := q.Holder(name)
		require.False(t, held)
		began := q.Clock().Now()
		q.Advance(ttl / 3) // the next extension is due
		lost(t, k)
		require.Less(t, q.Clock().Now().Sub(began), ttl-ttl/10, "before its validity was over")
	})
}

func TestAnExtendedLockOutlivesItsTTLInSmallSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		k := take(t, q.Locker(patient), redlock.WithAutoExtend())
		for range 10 {
			q.Advance(ttl / 2)
			synctest.Wait()
			require.NoError(t, k.Context().Err())
		}
		time.Sleep(10 * ttl) // and in the bubble's own time
		require.NoError(t, k.Check(t.Context()))
	})
}

func TestWithoutAMajorityThereIsNoQuorumUntilItIsRestored(t *testing.T) {
	for n := 1; n <= 6; n++ {
		everywhere(t, func(t *testing.T) {
			q := redlocktest.New(t, n)
			l := q.Locker(patient)
			k := take(t, l)
			require.NoError(t, l.Healthy(t.Context()))
			q.LoseMajority()
			require.Error(t, l.Healthy(t.Context()))
			require.NoError(t, k.Context().Err(), "what is held is valid until its time is over")
			require.ErrorIs(t, k.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
			_, err := l.TryAcquire(t.Context(), "another name", ttl)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			q.Restore()
			require.NoError(t, l.Healthy(t.Context()))
			require.NoError(t, k.Extend(t.Context(), ttl))
		})
	}
}

func TestAMinorityThatIsDownFrozenOrSlowCostsNothing(t *testing.T) {
	for what, fault := range map[string]func(q *redlocktest.Quorum, i int){
		"stopped": func(q *redlocktest.Quorum, i int) { q.Stop(i) },
		"frozen":  func(q *redlocktest.Quorum, i int) { q.Freeze(i) },
		"slow":    func(q *redlocktest.Quorum, i int) { q.Slow(time.Hour, i) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := redlocktest.New(t, 5)
				l := q.Locker(patient)
				require.NoError(t, l.Healthy(t.Context()))
				fault(q, 0)
				fault(q, 4)
				began := time.Now()
				k := take(t, l)
				require.NoError(t, k.Release(t.Context()))
				require.Zero(t, time.Since(began))
			})
		})
	}
}

func TestAFrozenMajorityIsANodeTimeoutAndNotARefusal(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		l := q.Locker(redlock.WithNodeTimeout(50 * time.Millisecond))
		q.Freeze(q.Majority()...)
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrNodeTimeout)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		q.Restore()
		take(t, q.Locker(patient))
	})
}

func TestASlowMasterAnswersLaterByItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		l := q.Locker(patient)
		require.NoError(t, l.Healthy(t.Context()))
		q.Slow(70*time.Millisecond, 0, 1)
		began := time.Now()
		take(t, l)
		require.Equal(t, 70*time.Millisecond, time.Since(began))
		q.Restore()
		require.NoError(t, l.Healthy(t.Context()))
		require.Equal(t, 70*time.Millisecond, time.Since(began).Truncate(10*time.Millisecond))
	})
}

func TestARestartedMasterKeepsItsLocksOrNot(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		l := q.Locker(patient)
		k := take(t, l)
		require.NoError(t, k.Check(t.Context()))
		q.Restart(0, 1, 2)
		require.NoError(t, k.Check(t.Context()))
		q.RestartEmpty(0, 1, 2)
		require.ErrorIs(t, k.Check(t.Context()), redlock.ErrLost, "without persistence a restart forgets: see the restart guard")
	})
}

// Tests may let hours pass while masters are down.
func TestADayWithoutAQuorumIsSoonOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		var attempts atomic.Int64
		l := q.Locker(patient, redlock.WithTrace(&redlock.Trace{Attempt: func(redlock.RoundEvent) { attempts.Add(1) }}))
		q.LoseMajority()
		got := make(chan error, 1)
		go func() {
			k, err := l.Acquire(t.Context(), name, ttl)
			if err == nil {
				err = k.Release(t.Context())
			}
			got <- err
		}()
		time.Sleep(time.Minute)
		before := attempts.Load()
		require.Positive(t, before)
		q.Advance(24 * time.Hour)
		synctest.Wait()
		require.LessOrEqual(t, attempts.Load()-before, int64(2), "a day that passes at once is one pause between attempts")
		require.Empty(t, got)
		q.Restore()
		began := time.Now()
		require.NoError(t, <-got)
		require.Less(t, time.Since(began), 5*time.Second)
	})
}

// Otherwise a process that starts beside a server that does not answer could not be tested: the test would end.
func TestALockerIsMadeAtOnceBesideAServerThatDoesNotAnswer(t *testing.T) {
	for what, fault := range map[string]func(q *redlocktest.Quorum){
		"stopped":   func(q *redlocktest.Quorum) { q.Stop(2) },
		"frozen":    func(q *redlocktest.Quorum) { q.Freeze(2) },
		"slow":      func(q *redlocktest.Quorum) { q.Slow(long, 2) },
		"restarted": func(q *redlocktest.Quorum) { q.Slow(long, 2); q.Restart(2) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := redlocktest.New(t, 3)
				fault(q)
				began := time.Now()
				take(t, q.Locker())
				require.Less(t, time.Since(began), time.Second)
			})
		})
	}
}

// Otherwise a lock that one server missed the extension of would not have expired on the others.
func TestExpireNowExpiresALockOnEveryServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		k := take(t, q.Locker(patient))
		synctest.Wait() // every server has the lock, and not only the majority that granted it
		q.Stop(2)
		require.NoError(t, k.Extend(t.Context(), long))
		q.ExpireNow(name)
		_, held := q.Holder(name)
		require.False(t, held)
	})
}

// Otherwise the servers' clocks would be behind the clients', and would keep the keys for longer.
func TestSeveralStepsOfTimeAddUp(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		q := redlocktest.New(t, 3)
		q.HoldElsewhere(name, long)
		q.Advance(long * 2 / 3)
		q.Advance(long * 2 / 3)
		_, held := q.Holder(name)
		require.False(t, held)
	})
}
