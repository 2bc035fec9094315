package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/cluster"
	"github.com/quorumlock/go-redlock/pool/sentinel"
	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 1, exclusion: no two locks on one name are valid at the same time. This holds while the
// nodes keep what they acknowledged, and no node's clock gains more than the allowance on a client's
// clock during the time for which the lock was last confirmed. Lost, late, doubled
// or reordered messages do not change it, and neither does anything that the library does to itself.
// A claim is resumed by one process at a time, and not after its release: if two processes resume copies
// of it, both hold the same lock. A claim that is not released excludes other locks until the validity that
// the handle had at Detach is over.
//
// Every lock that take and get return was checked: the test fails if an earlier lock on the name is
// still valid.

// A quorum is more than half of all nodes.

func TestALockExcludesAllOthersUntilItsRelease(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		for _, p := range []*process{a, b} {
			_, err := p.TryAcquire(bg, "x", time.Minute)
			require.ErrorIs(t, err, redlock.ErrHeld)
		}
		require.NoError(t, lock.Release(bg))
		b.take("x", time.Minute)
	})
}

func TestOneOfManyProcessesThatTryAtOnceGetsTheLock(t *testing.T) {
	onMasters(t, 5, func(t *testing.T, s *system) {
		var all []*process
		for range 6 {
			all = append(all, s.process())
		}
		for range 10 {
			locks := make([]*redlock.Lock, len(all))
			var calls sync.WaitGroup
			for i, p := range all {
				calls.Go(func() { locks[i], _ = p.TryAcquire(bg, "x", time.Minute) })
			}
			calls.Wait()
			locks = slices.DeleteFunc(locks, func(l *redlock.Lock) bool { return l == nil })
			require.Len(t, locks, 1)
			require.NoError(t, locks[0].Release(bg))
			require.Empty(t, s.left())
		}
	})
}

func TestHalfOfTheNodesAreNoQuorum(t *testing.T) {
	for _, n := range []int{2, 4} {
		onMasters(t, n, func(t *testing.T, s *system) {
			p := s.process()
			for i := range n / 2 {
				s.kill(i + 1)
			}
			_, err := p.TryAcquire(bg, "x", time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
		})
	}
}

func TestNodesThatAreDownCountForTheSizeOfAQuorum(t *testing.T) {
	onMasters(t, 5, func(t *testing.T, s *system) {
		p := s.process()
		s.kill(1, 2, 3)
		pass(time.Second)
		_, err := p.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Empty(t, s.left())
	})
}

func TestAServerUnderTwoNamesHasOneVote(t *testing.T) {
	onMasters(t, 2, func(t *testing.T, s *system) {
		var nodes []*pool.Node
		for name, m := range map[string]*fakeredis.Master{"one": s.masters[0], "another": s.masters[0], "third": s.masters[1]} {
			n, err := pool.Open(pool.Config{Name: name, Address: name, Dial: m.Dial, Clock: clock.Runtime()})
			require.NoError(t, err)
			nodes = append(nodes, n)
		}
		l, err := redlock.New(nodes, redlock.WithClock(clock.Runtime()))
		require.NoError(t, err)
		defer l.Close(bg)
		s.kill(2)
		_, err = l.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestALostAnswerIsNoVote(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		p.conn(1).CutReply(0)
		p.conn(2).CutReply(3)
		_, err := p.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "all masters have set the key, and one has said so")
	})
}

func TestAnAnswerAfterTheNodeTimeoutIsNoVote(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		s.kill(3)
		s.slow(nodeTimeout+time.Millisecond, 1, 2)
		_, err := a.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, redlock.ErrNodeTimeout)
		s.slow(0)
		pass(time.Second)
		b.take("x", time.Minute)
	})
}

func TestAGrantOfAnEarlierAttemptIsNoVoteForTheNext(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		p.conn(1).HoldReplies()
		p.conn(2).HoldReplies()
		_, err := p.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		s.freeze(1, 2) // they execute nothing of the next attempt
		next := p.wants(bg, []string{"x"}, time.Minute)
		p.conn(1).Release()
		p.conn(2).Release()
		pass(nodeTimeout)
		require.Empty(t, next, "the grants of the first attempt were counted")
		s.heal()
		s.get(next)
	})
}

// Tokens.

func TestEachAttemptHasATokenOfItsOwn(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.set("x", "somebody's", 300*time.Millisecond, 1)
		s.set("x", "another's", 300*time.Millisecond, 2)
		lock, err := s.process().TryAcquire(bg, "x", 10*time.Second)
		require.NoError(t, err, "it tries again while the votes are split")
		var tokens []string
		for _, c := range s.sent(3, lockCommands...) {
			if c[0] == "SET" {
				require.NotContains(t, tokens, c[2])
				tokens = append(tokens, c[2])
			}
		}
		require.Greater(t, len(tokens), 2)
		require.Equal(t, lock.Token(), tokens[len(tokens)-1])
	})
}

func TestALateReleaseOfOneAttemptLeavesTheNextAlone(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.set("x", "another's", 200*time.Millisecond, 2, 3)
		s.slow(time.Millisecond, 2, 3)
		old := p.conn(1)
		s.before(1, 2, func() { // the first attempt's undo is on its way when its connection ends …
			old.HoldRequests()
			old.Drop()
		})
		lock := p.take("x", time.Minute)
		pass(time.Second)
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		old.Release() // … and arrives now
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		require.NoError(t, lock.Check(bg))
	})
}

func TestALockThatIsHandedOverHasATokenOfItsOwn(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		first := p.take("x", time.Minute)
		waiting := p.wants(bg, []string{"x"}, time.Minute)
		require.NoError(t, first.Release(bg))
		second := s.get(waiting)
		require.NotEqual(t, first.Token(), second.Token())
		require.NotEqual(t, first.ID(), second.ID())
		for n := range s.masters {
			value, _ := s.masters[n].Get("x")
			require.Equal(t, second.Token(), value)
		}
	})
}

// Late, doubled and reordered commands.

// send sends a command to a master from elsewhere.
func (s *system) send(n int, command ...string) {
	raw, err := s.masters[n-1].Dial(bg, "", "")
	require.NoError(s.t, err)
	conn := redis.NewConn(raw, 0, 0)
	defer conn.Close()
	_, err = conn.Do(command[0], redis.Args{}.AddFlat(command[1:])...)
	require.NoError(s.t, err)
}

func TestAnAcquireBehindItsUndoIsEndedWithItsConnection(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		old := p.conn(1)
		old.HoldRequests() // the acquire is in flight …
		lock := p.take("x", time.Hour)
		old.Drop() // … when the connection ends
		pass(time.Second)
		require.NoError(t, lock.Release(bg))
		pass(time.Second)
		old.Release()
		require.Empty(t, s.having("x"), "the acquire was executed behind its undo")
	})
}

func TestAnAcquireThatCannotBeEndedIsSweptAway(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.each(nil, func(m *fakeredis.Master) { m.Deny("CLIENT KILL") })
		old := []*fakeredis.Client{p.conn(1), p.conn(2)}
		for _, c := range old {
			c.HoldRequests()
		}
		attempt := make(chan error, 1)
		go func() { _, err := p.TryAcquire(bg, "x", time.Hour); attempt <- err }()
		pass(100 * time.Millisecond)
		for _, c := range old {
			c.Drop()
		}
		require.ErrorIs(t, <-attempt, redlock.ErrNoQuorum)
		pass(5 * time.Second) // every undo was executed
		for _, c := range old {
			c.Release()
		}
		require.Equal(t, []int{1, 2}, s.having("x"), "the acquires are executed after all, for an hour")
		pass(10 * time.Second)
		require.Empty(t, s.having("x"))
	})
}

func TestALateAcquireAndItsUndoLeaveTheNextHolderAlone(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.conn(1).HoldRequests()
		a.conn(2).HoldRequests()
		_, err := a.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		synctest.Wait() // n3 was undone
		lock := b.take("x", time.Minute)
		a.conn(1).Release()
		a.conn(2).Release()
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		require.NoError(t, lock.Check(bg))
	})
}

func TestADoubledAcquireMakesNoHolder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		acquire := s.sent(1, lockCommands...)[0]
		require.NoError(t, lock.Release(bg))
		require.Empty(t, s.having("x"))
		s.send(1, acquire...)
		require.Equal(t, []int{1}, s.having("x"))
		require.Zero(t, max(0, lock.Remaining()))
		b.take("x", time.Minute)
		require.Error(t, lock.Extend(bg, time.Minute))
	})
}

func TestADoubledReleaseDeletesNothingOfTheNextHolder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		require.NoError(t, a.take("x", time.Minute).Release(bg))
		pass(0)
		release := s.sent(1, lockCommands...)[1]
		lock := b.take("x", time.Minute)
		for n := range s.masters {
			s.send(n+1, release...)
		}
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		require.NoError(t, lock.Check(bg))
	})
}

func TestALateExtensionChangesNothingOfTheNextHolder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Second)
		for n := range 3 {
			a.conn(n + 1).HoldRequests()
		}
		require.ErrorIs(t, lock.Extend(bg, time.Hour), redlock.ErrNoQuorum)
		pass(time.Second)
		next := b.take("x", time.Minute)
		for n := range 3 {
			a.conn(n + 1).Release()
		}
		synctest.Wait()
		for _, m := range s.masters {
			require.LessOrEqual(t, m.TTL("x"), time.Minute)
		}
		require.NoError(t, next.Check(bg))
	})
}

func TestAnExtensionNeverMakesAKey(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		s.del("x", 1)
		require.NoError(t, lock.Extend(bg, 20*time.Second), "two of three nodes have the key")
		require.Equal(t, []int{2, 3}, s.having("x"))
		s.del("x", 2)
		require.ErrorIs(t, lock.Extend(bg, 20*time.Second), redlock.ErrLost)
		require.Empty(t, s.having("x"))
	})
}

func TestAnExtensionIsRefusedAfterAnotherHolder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", 10*time.Second)
		s.del("x")
		between, err := b.TryAcquire(bg, "x", 10*time.Second)
		require.NoError(t, err, "the nodes did not keep what they acknowledged")
		require.NoError(t, between.Release(bg))
		require.ErrorIs(t, lock.Extend(bg, 10*time.Second), redlock.ErrLost)
		require.Empty(t, s.having("x"))
	})
}

func TestAReleaseDeletesNothingOfAnotherHolder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		s.set("x", "another's", time.Minute)
		require.ErrorIs(t, lock.Release(bg), redlock.ErrLost)
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
	})
}

func TestAFalseAnnouncementGivesNobodyTheLock(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		waiting := b.wants(bg, []string{"x"}, time.Minute)
		pass(time.Second)
		for n := range s.masters {
			s.send(n+1, "PUBLISH", "redlock:free:x", "")
		}
		pass(time.Second)
		require.Empty(t, waiting)
		require.NoError(t, lock.Release(bg))
		s.get(waiting)
	})
}

// What the library does to itself.

func TestNothingOfAValidLockIsUndoneOnAnyNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.conn(3).HoldRequests()
		lock := a.take("x", 10*time.Second) // by n1 and n2
		pass(time.Second)
		a.conn(3).Release() // n3 grants late
		require.Equal(t, []int{1, 2, 3}, s.having("x"))
		s.del("x", 1)
		for lock.Remaining() > 0 {
			_, err := b.TryAcquire(bg, "x", time.Second)
			require.ErrorIs(t, err, redlock.ErrHeld, "n3 was undone under a lock that is valid")
			pass(min(time.Second, lock.Remaining()))
		}
	})
}

func TestTheAnswersToAnExtensionReviveNoLockThatHasEnded(t *testing.T) {
	for _, noticed := range []bool{true, false} { // by a timer, before the answers come
		onMasters(t, 3, func(t *testing.T, s *system) {
			a, b := s.process(), s.process()
			lock := a.take("x", 10*time.Second)
			pass(lock.Remaining() - 100*time.Millisecond)
			for n := range 3 {
				a.conn(n + 1).HoldReplies()
			}
			extended := make(chan error, 1)
			go func() { extended <- lock.Extend(bg, 20*time.Second) }()
			if noticed {
				pass(100 * time.Millisecond)
			} else {
				synctest.Wait()
				a.clock.Suspend(100 * time.Millisecond)
			}
			for n := range 3 {
				a.conn(n + 1).Release()
			}
			require.ErrorIs(t, <-extended, redlock.ErrLost)
			require.LessOrEqual(t, lock.Remaining(), time.Duration(0))
			b.take("x", time.Second)
		})
	}
}

func TestAMinimumHoldKeepsOthersOutAfterTheRelease(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Second, redlock.WithMinHold(10*time.Second))
		require.NoError(t, lock.Release(bg))
		pass(9 * time.Second)
		_, err := b.TryAcquire(bg, "x", time.Second)
		require.ErrorIs(t, err, redlock.ErrHeld)
		pass(time.Second)
		b.take("x", time.Second)
	})
}

func TestALockOfTheCallersContextIsNotTakenAgain(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		_, err := p.Acquire(lock.Context(), "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
		share, err := p.Acquire(lock.Context(), "x", time.Minute, redlock.WithShared())
		require.NoError(t, err, "unless it asks for a share")
		require.Equal(t, lock.ID(), share.ID())
	})
}

// Several names.

func TestANodeGrantsAllNamesOrNone(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.set("b", "another's", time.Minute, 1)
		lock := s.get(p.wants(bg, []string{"c", "a", "b"}, time.Minute))
		require.Equal(t, []string{"a", "b", "c"}, lock.Names())
		require.Equal(t, []int{2, 3}, s.having("a"))
		require.Equal(t, []int{2, 3}, s.having("c"))
		require.NoError(t, lock.Release(bg))
		require.Equal(t, []string{"n1: b"}, s.left())
	})
}

func TestSetsOfNamesThatOverlapExcludeEachOther(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		all := []*process{s.process(), s.process(), s.process()}
		names := []string{"a", "b", "c", "d"}
		var work sync.WaitGroup
		for i := range 12 {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			work.Go(func() {
				var set []string
				for _, n := range random.Perm(len(names))[:1+random.IntN(3)] {
					set = append(set, names[n])
				}
				lock, err := all[i%3].AcquireAll(bg, set, 10*time.Second)
				if assert.NoError(t, err) {
					s.alone(lock)
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					assert.NoError(t, lock.Release(bg))
				}
			})
		}
		work.Wait()
		require.Empty(t, s.left())
	})
}

// Claims.

func TestAClaimHasOneHandleInAProcess(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		claim, err := p.take("x", time.Minute).Detach()
		require.NoError(t, err)
		lock, err := p.Resume(bg, claim)
		require.NoError(t, err)
		_, err = p.Resume(bg, claim)
		require.ErrorIs(t, err, redlock.ErrAlreadyHeld)
		require.NoError(t, lock.Check(bg))
	})
}

func TestALockThatWasDetachedSendsNothingMore(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", 10*time.Second)
		a.conn(1).HoldReplies()
		a.conn(2).HoldReplies()
		go func() { _ = lock.Extend(bg, 10*time.Second) }()
		synctest.Wait()
		claims := make(chan redlock.Claim, 1)
		go func() { claim, _ := lock.Detach(); claims <- claim }()
		synctest.Wait()
		require.Empty(t, claims, "an extension is under way")
		a.conn(1).Release()
		a.conn(2).Release()
		next, err := b.Resume(bg, <-claims)
		require.NoError(t, err)
		s.forget()
		require.ErrorIs(t, lock.Release(bg), redlock.ErrDetached)
		require.Empty(t, s.sent(0, "EVALSHA", "EVAL"))
		require.NoError(t, next.Release(bg))
	})
}

// Clocks.

func TestClocksWithinTheAllowanceDoNotMakeTwoHolders(t *testing.T) {
	for _, rates := range [][2]float64{{0.99, 1}, {0.99, 1.01}, {1.01, 0.99}} {
		onMasters(t, 3, func(_ *testing.T, s *system) {
			a, b := s.process(), s.process()
			a.clock.SetRate(rates[0])
			b.clock.SetRate(rates[1])
			for range 3 {
				a.take("x", 10*time.Second) // each holds the lock to its end
				b.take("x", 10*time.Second)
			}
		})
	}
}

func TestAServersClockWithinTheAllowanceDoesNotMakeTwoHolders(t *testing.T) {
	for _, rate := range []float64{0.99, 1.01} {
		onMasters(t, 3, func(_ *testing.T, s *system) {
			a, b := s.process(), s.process()
			s.each(nil, func(m *fakeredis.Master) { m.SetRate(rate) })
			for range 3 {
				a.take("x", 10*time.Second)
				b.take("x", 10*time.Second)
			}
		})
	}
}

func TestAClockBeyondTheAllowanceMakesTwoHolders(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) { // the control of the two tests above
		a, b := s.process(), s.process()
		a.clock.SetRate(0.97)
		lock := a.take("x", 10*time.Second)
		_, err := b.Acquire(bg, "x", 10*time.Second)
		require.NoError(t, err)
		require.Positive(t, lock.Remaining())
	})
}

// The restart guard: a node that may have forgotten does not vote until what it forgot is over.

// maxTTL is that of the restart guard in these tests.
const maxTTL = 10 * time.Second

// guarded makes a process under the restart guard, and waits until all nodes vote.
func (s *system) guarded(opts ...redlock.Option) *process {
	s.t.Helper()
	p := s.process(append([]redlock.Option{redlock.WithRestartGuard(maxTTL)}, opts...)...)
	for range 2 {
		require.NoError(s.t, p.take("warm-up", time.Second).Release(bg))
		pass(time.Second)
	}
	return p
}

func TestUnderTheGuardANodeThatForgotDoesNotVote(t *testing.T) {
	for what, forget := range map[string]func(m *fakeredis.Master){
		"an empty restart":            func(m *fakeredis.Master) { _ = m.Restart(false) },
		"a restart with an older log": func(m *fakeredis.Master) { m.Del("x"); _ = m.Restart(true) },
		"FLUSHALL":                    (*fakeredis.Master).FlushAll,
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			a, b := s.guarded(), s.guarded()
			s.set("x", "of a process that crashed", time.Second, 3)
			lock := a.take("x", maxTTL) // by n1 and n2
			pass(time.Second)
			forget(s.masters[1])
			pass(time.Second)
			_, err := b.TryAcquire(bg, "x", time.Second)
			require.Error(t, err, what)
			b.take("x", time.Second)
			require.ErrorIs(t, lock.Release(bg), redlock.ErrLost)
		})
	}
}

func TestWithoutTheGuardANodeThatForgotMakesTwoHolders(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) { // the control of the test above
		a, b := s.process(), s.process()
		s.set("x", "of a process that crashed", time.Second, 3)
		lock := a.take("x", maxTTL)
		pass(time.Second)
		s.restart(2)
		pass(time.Second)
		_, err := b.Acquire(bg, "x", time.Second)
		require.NoError(t, err)
		require.Positive(t, lock.Remaining())
	})
}

func TestUnderTheGuardANewDeploymentWaitsOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithRestartGuard(maxTTL))
		_, err := p.TryAcquire(bg, "x", time.Second)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		require.GreaterOrEqual(t, elapsed(func() { p.take("x", time.Second) }), maxTTL-time.Second)
		require.Zero(t, elapsed(func() { s.process(redlock.WithRestartGuard(maxTTL)).take("y", time.Second) }))
	})
}

func TestClientsThatDisagreeAboutTheGuardDoNotShareNodes(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.guarded()
		for what, opts := range map[string][]redlock.Option{
			"another maxTTL": {redlock.WithRestartGuard(2 * maxTTL)},
			"no guard":       nil,
		} {
			_, err := s.process(opts...).TryAcquire(bg, "x", time.Second)
			require.ErrorIs(t, err, redlock.ErrGuardMismatch, what)
		}
		s.guarded().take("x", time.Second) // their markers were left alone
	})
}

func TestAnExtensionThatNeedsANodeInQuarantineDoesNotCount(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.guarded()
		lock := p.take("x", 4*time.Second)
		require.NoError(t, s.masters[0].Restart(true))
		require.NoError(t, s.masters[1].Restart(true))
		pass(time.Second)
		left := lock.Remaining()
		require.ErrorIs(t, lock.Extend(bg, 4*time.Second), redlock.ErrNoQuorum)
		require.LessOrEqual(t, lock.Remaining(), left)
	})
}

func TestARepairTouchesNoKeyOfAnotherAndNoNodeInQuarantine(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.guarded(redlock.WithRepair())
		lock := p.take("x", 3*time.Second, redlock.WithAutoExtend())
		s.set("x", "another's", 5*time.Second, 3)
		pass(4 * time.Second)
		value, _ := s.masters[2].Get("x")
		require.Equal(t, "another's", value)
		s.restart(3)
		pass(maxTTL - time.Second)
		require.Equal(t, []int{1, 2}, s.having("x"))
		pass(5 * time.Second)
		require.Equal(t, []int{1, 2, 3}, s.having("x"), "the node votes again, and was repaired")
		require.NoError(t, lock.Release(bg))
	})
}

// Nodes behind Sentinels, and Clusters.

func TestANodeBehindSentinelsNeedsTheGuard(t *testing.T) {
	n, err := pool.Open(pool.Config{Name: "orders", Kind: &sentinel.Config{Master: "m", Addresses: []string{"127.0.0.1:1"}}})
	require.NoError(t, err)
	defer n.Close()
	_, err = redlock.New([]*pool.Node{n})
	require.ErrorIs(t, err, redlock.ErrInvalid)
}

// sentinels are the Sentinels of the master n1, and who reaches them.
type sentinels struct {
	s   *system
	all []*fakeredis.Sentinel
	cut atomic.Bool // the clients that are partitioned do not reach the second and the third
}

// client makes a process whose only node is behind the Sentinels.
func (w *sentinels) client(t *testing.T, partitioned bool) *redlock.Locker {
	t.Helper()
	c := clock.Runtime()
	follow := &sentinel.Config{Master: "m"}
	for _, sentinel := range w.all {
		follow.Addresses = append(follow.Addresses, sentinel.Addr())
	}
	n, err := pool.Open(pool.Config{Name: "node", Kind: follow, Clock: c, Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
		for i, server := range []*fakeredis.Master{w.all[0].Master, w.s.masters[0], w.s.masters[1], w.all[1].Master, w.all[2].Master} {
			if unreachable := partitioned && i > 2 && w.cut.Load(); server.Addr() == address && !unreachable {
				return server.Dial(ctx, "", "")
			}
		}
		return nil, errors.New("no route to host")
	}})
	require.NoError(t, err)
	l, err := redlock.New([]*pool.Node{n}, redlock.WithClock(c), redlock.WithRestartGuard(maxTTL))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close(bg) })
	return l
}

func TestTwoMastersOfANodeBehindSentinelsNeverBothGrant(t *testing.T) {
	onMasters(t, 2, func(t *testing.T, s *system) {
		w := &sentinels{s: s}
		for i := range 3 {
			sentinel := fakeredis.NewSentinel(fmt.Sprint("s", i+1), 2)
			t.Cleanup(sentinel.Close)
			sentinel.SetMaster("m", s.masters[0].Addr())
			w.all = append(w.all, sentinel)
		}
		a := w.client(t, true)
		held, err := a.Acquire(bg, "x", maxTTL)
		require.NoError(t, err)
		w.cut.Store(true) // a reaches n1 and one Sentinel; the others name n2
		for _, sentinel := range w.all[1:] {
			for _, c := range sentinel.Clients() {
				c.Drop()
			}
			sentinel.Failover("m", s.masters[1].Addr())
		}
		b := w.client(t, false)
		next := make(chan *redlock.Lock, 1)
		go func() { lock, _ := b.Acquire(bg, "x", time.Second); next <- lock }()
		for len(next) == 0 {
			_ = held.Extend(bg, maxTTL) // as long as n1 counts for a
			pass(10 * time.Millisecond)
			require.False(t, len(next) > 0 && held.Remaining() > 0, "both hold the lock")
		}
		require.NoError(t, (<-next).Release(bg))
	})
}

func TestTheNamesOfALockShareASlotOfACluster(t *testing.T) {
	unreachable := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("unreachable") }
	n, err := pool.Open(pool.Config{Name: "cluster", Kind: &cluster.Config{Addresses: []string{"127.0.0.1:1"}}, Dial: unreachable})
	require.NoError(t, err)
	_, err = redlock.New([]*pool.Node{n}, redlock.WithRestartGuard(maxTTL))
	require.ErrorIs(t, err, redlock.ErrInvalid, "a Cluster cannot have the guard")
	l, err := redlock.New([]*pool.Node{n})
	require.NoError(t, err)
	defer l.Close(bg)
	_, err = l.TryAcquireAll(bg, []string{"a", "b"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrInvalid)
	_, err = l.TryAcquireAll(bg, []string{"{tag}a", "{tag}b"}, time.Minute)
	require.ErrorIs(t, err, redlock.ErrNoQuorum, "it was sent")
}

// Everything at once.

func TestFaultsAtRandomMakeNoTwoHolders(t *testing.T) {
	for seed := range uint64(3) {
		onMasters(t, 3, func(_ *testing.T, s *system) {
			ctx, cancel := context.WithTimeout(bg, 20*time.Second)
			defer cancel()
			var work sync.WaitGroup
			for i := range 4 {
				p := s.process()
				work.Go(func() { s.useLocks(ctx, p, rand.New(rand.NewPCG(seed, uint64(i)))) })
			}
			random := rand.New(rand.NewPCG(seed, 99))
			for ctx.Err() == nil {
				n := 1 + random.IntN(3)
				switch random.IntN(4) {
				case 0:
					s.freeze(n)
				case 1:
					s.kill(n)
				case 2:
					s.slow(time.Second, n)
				default:
					for _, c := range s.masters[n-1].Clients() {
						c.Drop() // what it has sent is executed
					}
				}
				pass(time.Duration(random.IntN(2000)) * time.Millisecond)
				s.heal(n)
			}
			work.Wait()
		})
	}
}

// useLocks acquires, extends and releases locks until ctx ends.
func (s *system) useLocks(ctx context.Context, p *process, random *rand.Rand) {
	for ctx.Err() == nil {
		lock, err := p.Acquire(ctx, "x", 500*time.Millisecond)
		if err != nil {
			continue
		}
		s.alone(lock)
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		if random.IntN(2) == 0 {
			_ = lock.Extend(ctx, time.Second)
		}
		time.Sleep(time.Duration(random.IntN(800)) * time.Millisecond)
		if err := lock.Release(bg); err != nil && !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) {
			s.t.Errorf("Release: %v", err)
		}
	}
}
