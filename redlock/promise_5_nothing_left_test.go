package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 5, nothing is left behind: what an attempt may have written is undone or expires by its
// TTL. Every goroutine has an owner that waits for it. Close does not wait for a minority longer than
// a node takes to recover. It reports what it leaves to expire, but for keys that nodes have refused to
// delete because a right is missing: Release has reported those of a quorum.
//
// onMasters fails a test that leaves a goroutine when everything is closed.

// Attempts that fail.

func TestAnAttemptThatLosesIsUndoneAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.set("x", "another's", time.Minute, 1, 2)
		_, err := s.process().TryAcquire(bg, "x", time.Hour)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Equal(t, []int{1, 2}, s.having("x"))
	})
}

func TestAKeyWhoseGrantWasNeverHeardOfIsUndone(t *testing.T) {
	for _, bytes := range []int{0, 3} { // of the reply +OK
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			p.conn(1).CutReply(bytes)
			p.conn(2).CutReply(bytes)
			_, err := p.TryAcquire(bg, "x", time.Hour)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.Equal(t, []int{1, 2}, s.having("x"))
			pass(100 * time.Millisecond) // a dial
			require.Empty(t, s.left())
		})
	}
}

func TestAGrantThatComesAfterTheDecisionIsUndone(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.set("x", "another's", time.Minute, 2, 3)
		s.slow(time.Millisecond, 2, 3)
		p.conn(1).HoldRequests()
		_, err := p.TryAcquire(bg, "x", time.Hour)
		require.ErrorIs(t, err, redlock.ErrHeld)
		p.conn(1).Release()
		require.Equal(t, []int{2, 3}, s.having("x"))
		require.NotEmpty(t, s.sent(1, lockCommands...), "the acquire was executed")
	})
}

func TestAnAttemptThatItsContextEndsIsUndone(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.slow(50*time.Millisecond, 1, 2)
		s.freeze(3)
		ctx, cancel := context.WithTimeout(bg, 20*time.Millisecond)
		defer cancel()
		_, err := p.Acquire(ctx, "x", time.Hour)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, s.left(), "also where the grant is still on its way back")
		s.heal()
		require.Empty(t, s.left())
	})
}

func TestVotesThatAreSplitAreGivenBackAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		all := []*process{s.process(), s.process(), s.process()}
		s.slow(time.Millisecond)
		for i, p := range all { // each has one node's vote
			for n := range 3 {
				if n != i {
					p.conn(n + 1).HoldRequests()
				}
			}
		}
		var work sync.WaitGroup
		for _, p := range all {
			work.Go(func() { assert.NoError(t, p.Do(bg, "x", time.Hour, s.isAlone)) })
		}
		require.Len(t, s.left(), 3)
		for _, p := range all {
			for n := range 3 {
				p.conn(n + 1).Release()
			}
		}
		require.Less(t, elapsed(work.Wait), 2*time.Second)
		require.Empty(t, s.left())
	})
}

// isAlone is work for Do.
func (s *system) isAlone(_ context.Context, lock *redlock.Lock) error {
	s.alone(lock)
	return nil
}

// Undos are kept until a node has answered them.

func TestAFrozenNodeUndoesWhenItContinues(t *testing.T) {
	for _, frozen := range []time.Duration{time.Second, time.Minute, 10 * time.Minute} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			lock := s.process().take("x", time.Hour)
			s.freeze(3)
			require.NoError(t, lock.Release(bg))
			require.Equal(t, []int{3}, s.having("x"))
			pass(frozen)
			s.heal()
			pass(2 * time.Second)
			require.Empty(t, s.left(), "after %v", frozen)
		})
	}
}

func TestADeadNodeUndoesWhenItIsBack(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Hour)
		s.kill(3)
		require.NoError(t, lock.Release(bg))
		pass(10 * time.Minute)
		require.Equal(t, []int{3}, s.having("x"))
		s.heal()
		pass(2 * time.Second)
		require.Empty(t, s.left())
	})
}

func TestAnUndoThatIsAnsweredByAnErrorIsSentAgain(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Hour)
		s.refuse("BUSY Redis is busy running a script.", 3)
		require.NoError(t, lock.Release(bg))
		pass(time.Minute)
		require.Equal(t, []int{3}, s.having("x"))
		s.heal()
		pass(2 * time.Second)
		require.Empty(t, s.left())
	})
}

func TestAnUndoWhoseConnectionEndsIsSentOnTheNext(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Hour)
		p.conn(3).HoldRequests()
		require.NoError(t, lock.Release(bg))
		p.conn(3).Drop()
		pass(time.Second)
		require.Empty(t, s.left())
	})
}

func TestTheUndoOfARepairedKeyIsKeptAsWell(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.guarded(redlock.WithRepair())
		s.refuse("BUSY Redis is busy running a script.", 3)
		lock := p.take("x", 8*time.Second) // n3 did not execute the acquire
		s.heal()
		pass(time.Second)
		require.NoError(t, lock.Extend(bg, 8*time.Second))
		require.Equal(t, []int{1, 2, 3}, s.having("x"), "but was repaired")
		s.refuse("BUSY Redis is busy running a script.", 3)
		require.NoError(t, lock.Release(bg))
		pass(time.Second)
		s.heal()
		pass(2 * time.Second)
		require.Empty(t, s.left())
	})
}

// The end of a lock.

func TestAReleaseDeletesAllKeysThoughItsContextIsDone(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Hour)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		require.NoError(t, lock.Release(ctx))
		require.Empty(t, s.left())
	})
}

func TestALockThatEndsByItselfIsUndoneBeforeItsKeysExpire(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Hour)
		pass(lock.Remaining())
		require.Empty(t, s.left(), "the keys would live for half a minute")
	})
}

func TestAReleaseBehindAnExtensionLeavesNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		s.freeze(3)
		p.conn(3).Drop() // what is sent to n3 from now on waits for a connection
		synctest.Wait()
		require.NoError(t, lock.Extend(bg, time.Hour))
		require.NoError(t, lock.Release(bg))
		s.heal()
		pass(time.Second)
		require.Empty(t, s.left())
		require.NotContains(t, fmt.Sprint(s.sent(3, lockCommands...)), "3600000", "the extension was sent after the end")
	})
}

func TestAReleaseThatNoNodeAnswersSaysWhenItsKeysExpire(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Minute)
		s.freeze()
		var err error
		require.Equal(t, nodeTimeout, elapsed(func() { err = lock.Release(bg) }))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		var quorum *redlock.QuorumError
		require.ErrorAs(t, err, &quorum)
		require.Equal(t, time.Minute, quorum.Expires)
		s.heal()
		require.Empty(t, s.left(), "the release was on its way all the time")
	})
}

func TestAnAsyncReleaseDeletesAllKeysAsWell(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Hour, redlock.WithAsyncRelease())
		s.slow(100 * time.Millisecond)
		require.Zero(t, elapsed(func() { require.NoError(t, lock.Release(bg)) }))
		require.Empty(t, s.left())
		require.NoError(t, p.Close(bg), "Close waits for it")
	})
}

func TestASecondReleaseSendsNothingAndReturnsTheFirstResult(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", time.Minute)
		s.del("x")
		first := lock.Release(bg)
		require.ErrorIs(t, first, redlock.ErrLost)
		s.forget()
		require.Equal(t, first, lock.Release(bg))
		synctest.Wait()
		require.Empty(t, s.sent(0, "EVALSHA", "EVAL"))
	})
}

func TestAReleaseThatOneNameRefusesFreesTheOthers(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.get(s.process().wants(bg, []string{"a", "b"}, time.Minute))
		s.set("a", "another's", time.Minute)
		require.ErrorIs(t, lock.Release(bg), redlock.ErrLost)
		require.Equal(t, []int{1, 2, 3}, s.having("a"))
		require.Empty(t, s.having("b"))
	})
}

func TestAResumedLockIsReleasedOnAllNodes(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		claim, err := a.take("x", time.Hour).Detach()
		require.NoError(t, err)
		lock, err := b.Resume(bg, claim)
		require.NoError(t, err)
		require.NoError(t, lock.Release(bg))
		require.Empty(t, s.left())
	})
}

func TestTheKeysOfAProcessThatCrashesExpire(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", 10*time.Second, redlock.WithAutoExtend())
		for _, n := range a.nodes { // it sends nothing more
			require.NoError(t, n.Close())
		}
		waiting := b.wants(bg, []string{"x"}, time.Minute)
		pass(10*time.Second - time.Millisecond)
		require.Empty(t, waiting)
		pass(100 * time.Millisecond)
		require.Len(t, waiting, 1)
	})
}

func TestDoReleasesItsLockHoweverTheWorkEnds(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		wrong := errors.New("wrong")
		do := func(work func() error) error {
			return p.Do(bg, "x", time.Minute, func(context.Context, *redlock.Lock) error { return work() })
		}
		require.NoError(t, do(func() error { return nil }))
		require.Empty(t, s.left())
		require.ErrorIs(t, do(func() error { return wrong }), wrong)
		require.Empty(t, s.left())
		require.PanicsWithError(t, "wrong", func() { _ = do(func() error { panic(wrong) }) })
		require.Empty(t, s.left())
	})
}

func TestOnlyTheLockKeyIsWrittenWithoutFurtherOptions(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		waiting := b.wants(bg, []string{"x"}, time.Minute)
		pass(time.Minute / 2)
		require.NoError(t, lock.Extend(bg, time.Minute))
		for _, m := range s.masters {
			value, _ := m.Get("x")
			require.Equal(t, lock.Token(), value)
			require.Equal(t, []string{"x"}, m.Keys())
		}
		require.NoError(t, lock.Release(bg))
		require.NoError(t, s.get(waiting).Release(bg))
		synctest.Wait()
		require.Empty(t, s.masters[0].Keys())
	})
}

// Waiting.

func TestAWaiterThatGivesUpLeavesNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Hour)
		base := goroutines()
		ctx, cancel := context.WithCancel(bg)
		var waiting []<-chan result
		for range 9 {
			waiting = append(waiting, b.wants(ctx, []string{"x"}, time.Minute))
		}
		pass(10 * time.Second)
		require.Equal(t, 3, s.masters[0].Connections(), "one has subscribed")
		cancel()
		for _, done := range waiting {
			require.ErrorIs(t, (<-done).err, context.Canceled)
		}
		pass(time.Minute) // the subscription lingers for a while
		require.Equal(t, 2, s.masters[0].Connections())
		require.Equal(t, base, goroutines())
	})
}

func TestAWaiterThatGivesUpDuringAHandoffPassesTheLockOn(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p, other := s.process(), s.process()
			lock := p.take("x", time.Hour)
			ctx, cancel := context.WithCancel(bg)
			first := p.wants(ctx, []string{"x"}, time.Minute)
			if !elsewhere {
				other = p
			}
			next := other.wants(bg, []string{"x"}, time.Minute)
			pass(time.Second)
			s.slow(time.Millisecond)
			s.before(1, 1, cancel)
			released := time.Now()
			require.NoError(t, lock.Release(bg))
			require.ErrorIs(t, (<-first).err, context.Canceled)
			s.get(next)
			require.LessOrEqual(t, time.Since(released), 50*time.Millisecond)
		})
	}
}

func TestABoundedWaitThatEndsLeavesNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Hour)
		base := goroutines()
		_, err := b.Acquire(bg, "x", time.Minute, redlock.WithWait(2*time.Second))
		require.ErrorIs(t, err, redlock.ErrHeld)
		pass(time.Minute)
		require.Equal(t, base, goroutines())
		require.Equal(t, 2, s.masters[0].Connections())
	})
}

func TestHeldLocksAndContextsNeedNoGoroutine(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		p.take("warm-up", time.Hour)
		base := goroutines()
		for i := range 100 {
			_ = p.take(strconv.Itoa(i), time.Hour, redlock.WithAutoExtend()).Context()
		}
		require.Equal(t, base, goroutines())
	})
}

// Close.

func TestCloseOfAnIdleLockerReturnsAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		require.NoError(t, p.take("x", time.Hour).Release(bg))
		require.Zero(t, elapsed(func() { require.NoError(t, p.Close(bg)) }))
		require.NoError(t, p.Close(bg), "it may be called again")
	})
}

func TestNothingIsSentAfterClose(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		require.NoError(t, p.Close(bg))
		s.forget()
		_, err := p.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrClosed)
		_, err = p.Acquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrClosed)
		err = p.Do(bg, "x", time.Minute, func(context.Context, *redlock.Lock) error { panic("entered") })
		require.ErrorIs(t, err, redlock.ErrClosed)
		synctest.Wait()
		require.Empty(t, s.sent(0, lockCommands...))
	})
}

func TestCloseEndsCallsThatWait(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Hour)
		var waiting []<-chan result
		for range 3 { // the first waits for the holder, the others for the first
			waiting = append(waiting, b.wants(bg, []string{"x"}, time.Minute))
		}
		pass(time.Second)
		require.Zero(t, elapsed(func() { require.NoError(t, b.Close(bg)) }))
		for _, done := range waiting {
			require.ErrorIs(t, (<-done).err, redlock.ErrClosed)
		}
	})
}

func TestCloseUndoesAnAttemptThatIsUnderWay(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.slow(400 * time.Millisecond)
		attempt := p.wants(bg, []string{"x"}, time.Hour)
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		require.NoError(t, p.Close(bg))
		require.ErrorIs(t, (<-attempt).err, redlock.ErrClosed)
		require.Empty(t, s.left())
	})
}

func TestCloseWaitsForUndosOfSlowNodes(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Hour)
		s.slow(2*time.Second, 3)
		require.NoError(t, lock.Release(bg))
		require.Equal(t, 2*time.Second, elapsed(func() { require.NoError(t, p.Close(bg)) }))
		require.Empty(t, s.left())
	})
}

func TestCloseWaitsForAMinorityNoLongerThanANodeTakesToRecover(t *testing.T) {
	for what, fail := range map[string]func(s *system){
		"frozen": func(s *system) { s.freeze(3) },
		"dead":   func(s *system) { s.kill(3) },
	} {
		for _, first := range []string{"released", "closed"} {
			onMasters(t, 3, func(t *testing.T, s *system) {
				p := s.process()
				lock := p.take("x", time.Hour)
				fail(s)
				if first == "released" {
					require.NoError(t, lock.Release(bg))
				}
				closed := make(chan error, 1)
				go func() { closed <- p.Close(bg) }()
				synctest.Wait()
				_ = lock.Release(bg)
				var err error
				require.Equal(t, 10*time.Second, elapsed(func() { err = <-closed }), what) // the hard timeout and a dial
				require.ErrorIs(t, err, redlock.ErrKeysLeft, "it says what is left")
			})
		}
	}
}

func TestCloseWaitsForNoKeyThatHasExpired(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", 3*time.Second)
		s.freeze(3)
		require.NoError(t, lock.Release(bg))
		require.Equal(t, 3*time.Second, elapsed(func() { require.NoError(t, p.Close(bg)) }))
	})
}

func TestCloseWaitsForAReleaseThatNoQuorumHasConfirmed(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		s.freeze(2, 3)
		require.ErrorIs(t, lock.Release(bg), redlock.ErrNoQuorum)
		closed := make(chan error, 1)
		go func() { closed <- p.Close(bg) }()
		pass(30 * time.Second)
		require.Empty(t, closed, "its keys keep others from the lock")
		s.heal()
		require.NoError(t, <-closed)
		require.Empty(t, s.left())
	})
}

func TestCloseWaitsForAFailedAttemptNoLongerThanThat(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.set("x", "another's", time.Hour, 1, 2)
		s.slow(time.Millisecond)
		s.freeze(3)
		_, err := p.TryAcquire(bg, "x", time.Hour)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.LessOrEqual(t, elapsed(func() { err = p.Close(bg) }), 10*time.Second)
		require.ErrorIs(t, err, redlock.ErrKeysLeft)
	})
}

func TestCloseWhoseContextIsDoneSendsUndosAndWaitsForTheNodeTimeout(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Hour)
		s.freeze(3)
		require.NoError(t, lock.Release(bg))
		ctx, cancel := context.WithCancel(bg)
		cancel()
		var err error
		require.Equal(t, nodeTimeout, elapsed(func() { err = p.Close(ctx) }))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, redlock.ErrKeysLeft)
	})
}
