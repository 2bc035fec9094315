package redlock_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 3, fencing: two locks with a name in common have different numbers, and the later one has the
// larger number, while all that exclusion assumes holds. If a key vanished early or a clock was set, and the
// nodes' counters are durable, a number is larger than that of every lock that was acquired before any node
// executed this one's acquire. With counters that nodes forget, this holds under the restart guard, while all
// that exclusion assumes there holds, on four conditions: no Admit skipped a wait, no node's clock is set back,
// the nodes' clocks differ by less than maxTTL, less twice the clamp of rule 12 (the lesser of 1 s and a
// quarter of maxTTL), less 1 ms, and a name is granted less than once a microsecond. Elsewhere the order is
// best effort.

// counter is the key of the counter of the name x.
const counter = "redlock:fence:x"

// counted returns what the counter of a name is on a master, or 0.
func (s *system) counted(n int, name string) int64 {
	synctest.Wait()
	text, _ := s.masters[n-1].Get("redlock:fence:" + name)
	count, _ := strconv.ParseInt(text, 10, 64)
	return count
}

// count sets the counter of x on a master ahead of the time, as if it had granted x without the others.
func (s *system) count(n int, ahead time.Duration) int64 {
	count := time.Now().Add(ahead).UnixMicro()
	s.set(counter, strconv.FormatInt(count, 10), 0, n)
	return count
}

// fence acquires and releases x, and returns the fence.
func (p *process) fence() int64 {
	p.s.t.Helper()
	lock := p.take("x", time.Minute)
	require.NoError(p.s.t, lock.Release(bg))
	synctest.Wait()
	return lock.Fence()
}

const down = "MISCONF Errors writing to the AOF file"

// The order.

func TestEveryHolderHasALargerNumberThanTheOneBefore(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(redlock.WithFencing()), s.process(redlock.WithFencing())
		last := int64(0)
		for i := range 20 {
			fence := []*process{a, b}[i%2].fence()
			require.Greater(t, fence, last)
			last = fence
		}
	})
}

func TestNumbersIncreaseAcrossNodesThatAreDownInTurn(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		for n, ahead := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Hour} {
			s.count(n+1, ahead)
		}
		last := int64(0)
		for i := range 30 {
			n := 1 + i*2%3
			s.refuse(down, n)
			fence := p.fence()
			require.Greater(t, fence, last, "holder %d", i)
			last = fence
			s.heal(n)
		}
	})
}

func TestANumberThatANodeHasNotSeenIsConfirmedOnAMajority(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		most := s.count(1, time.Hour)
		s.refuse(down, 3)
		first := p.fence() // by n1 and n2, whose counters differ
		require.Equal(t, most+1, first)
		require.Equal(t, first, s.counted(2, "x"))
		s.heal(3)
		s.refuse(down, 1)
		require.Greater(t, p.fence(), first, "by n2 and n3")
	})
}

func TestAMajorityThatCountedAlikeNeedsNoConfirmation(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		p.fence()
		s.count(1, time.Hour)
		s.slow(time.Millisecond, 1) // n2 and n3 answer first
		s.forget()
		p.take("x", time.Minute)
		require.Len(t, s.sent(2, lockCommands...), 1)
		require.Len(t, s.sent(3, lockCommands...), 1)
	})
}

func TestANodeThatDidNotGrantIsNotToldTheNumber(t *testing.T) {
	onMasters(t, 5, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		most := s.count(1, time.Hour)
		s.set("x", "another's", time.Minute, 4)
		s.refuse(down, 5)
		s.forget()
		require.Equal(t, most+1, p.take("x", time.Minute).Fence())
		for n, commands := range []int{1, 2, 2, 1, 1} { // an acquire, and a confirmation
			require.Len(t, s.sent(n+1, lockCommands...), commands, "n%d", n+1)
		}
		for n, want := range []int64{most + 1, most + 1, most + 1, 0, 0} {
			require.Equal(t, want, s.counted(n+1, "x"), "n%d", n+1)
		}
	})
}

func TestANodeThatLostTheKeyConfirmsNoNumber(t *testing.T) {
	for _, next := range []string{"", "another's"} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process(redlock.WithFencing())
			s.count(1, time.Hour)
			s.refuse(down, 3)
			before := ""
			s.before(2, 2, func() { // the first command is the acquire
				before, _ = s.masters[1].Get(counter)
				s.del("x", 2)
				if next != "" {
					s.set("x", next, time.Minute, 2)
				}
			})
			_, err := p.TryAcquire(bg, "x", time.Minute)
			require.ErrorIs(t, err, redlock.ErrTooLate)
			require.NotEmpty(t, before)
			require.Equal(t, before, strconv.FormatInt(s.counted(2, "x"), 10))
		})
	}
}

func TestTheValidityIsCheckedAgainAfterAConfirmation(t *testing.T) {
	for slow, want := range map[time.Duration]error{480 * time.Millisecond: nil, 495 * time.Millisecond: redlock.ErrTooLate} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process(redlock.WithFencing(), redlock.WithNodeTimeout(900*time.Millisecond))
			for n := range 3 {
				s.count(n+1, time.Duration(n)*time.Hour)
			}
			s.slow(slow)
			lock, err := p.TryAcquire(bg, "x", time.Second)
			require.ErrorIs(t, err, want)
			if want == nil {
				require.Equal(t, validity(time.Second)-2*slow, lock.Remaining(), "two round trips")
			}
		})
	}
}

func TestALateGrantHasNoPartInTheNumber(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		s.count(1, time.Minute)
		most := s.count(3, time.Hour)
		p.conn(3).HoldReplies()
		s.before(2, 2, func() { // the grant of n3 arrives before the confirmation by n2
			p.conn(3).Release()
			time.Sleep(time.Millisecond)
		})
		lock := p.take("x", time.Minute)
		require.Equal(t, s.counted(1, "x"), lock.Fence())
		require.Less(t, lock.Fence(), most)
	})
}

func TestTwoHoldersAtOnceHaveNumbersInTheirOrder(t *testing.T) {
	for what, ahead := range map[string][3]time.Duration{
		"counted alike": {}, "n1 is ahead": {time.Hour, 0, 0}, "n2 is ahead": {0, time.Hour, 0}, "n3 is ahead": {0, 0, time.Hour},
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			a, b := s.process(redlock.WithFencing()), s.process(redlock.WithFencing())
			for n, d := range ahead {
				s.count(n+1, d)
			}
			s.refuse(down, 3)
			first := a.take("x", time.Minute) // by n1 and n2
			s.heal(3)
			s.del("x", 2)
			second, err := b.TryAcquire(bg, "x", time.Minute) // by n2 and n3
			require.NoError(t, err)
			require.Positive(t, first.Remaining(), "both are valid")
			require.Greater(t, second.Fence(), first.Fence(), what)
		})
	}
}

func TestAnAttemptThatWasOvertakenBecomesNoHolder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(redlock.WithFencing()), s.process(redlock.WithFencing())
		s.count(1, time.Hour)
		s.refuse(down, 3)
		var second *redlock.Lock
		s.before(2, 2, func() { // the first is about to be confirmed on n2
			synctest.Wait() // n3 has refused the first
			s.heal(3)
			s.del("x", 2)
			second, _ = b.TryAcquire(bg, "x", time.Minute)
		})
		_, err := a.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrTooLate)
		require.NoError(t, second.Check(bg))
	})
}

func TestAHolderWithoutANumberDoesNotDisturbTheOrder(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p, plain := s.process(redlock.WithFencing()), s.process()
		last := int64(0)
		for n := range 3 {
			s.count(n+1, time.Duration(n)*time.Hour)
		}
		for i := range 9 {
			s.refuse(down, 1+i%3)
			fence := p.fence()
			require.Greater(t, fence, last)
			last = fence
			s.heal(1 + i%3)
			require.Zero(t, plain.fence())
		}
	})
}

// What a resource does with the numbers.

func TestAResourceAcceptsLargerNumbersAndTheSameFromTheSameHolder(t *testing.T) {
	for _, c := range []struct {
		seen  int64
		by    string
		fence int64
		owner string
		want  bool
	}{
		{0, "", 1, "a", true}, // the first
		{1, "a", 2, "b", true},
		{2, "a", 2, "a", true},  // again
		{2, "a", 2, "b", false}, // a node has lost its counter: >= alone would not notice
		{2, "b", 1, "a", false}, // a holder that was paused
		{2, "a", 1, "a", false}, // an earlier lock of the same owner
		{2, "a", 0, "b", false},
		{0, "", 0, "a", false}, // a lock without fencing
	} {
		require.Equal(t, c.want, redlock.AcceptFence(c.seen, c.by, c.fence, c.owner), "%+v", c)
	}
}

func TestAPausedHoldersWriteIsRefused(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(redlock.WithFencing()), s.process(redlock.WithFencing())
		paused := a.take("x", time.Second)
		a.clock.Stall() // it knows nothing of the time that passes
		next, err := b.Acquire(bg, "x", time.Minute)
		require.NoError(t, err)
		require.Positive(t, paused.Remaining(), "it takes itself for the holder")
		require.True(t, redlock.AcceptFence(paused.Fence(), paused.ID(), next.Fence(), next.ID()))
		require.False(t, redlock.AcceptFence(next.Fence(), next.ID(), paused.Fence(), paused.ID()))
		a.clock.Resume()
	})
}

// During a hold.

func TestTheNumberNeverChangesDuringAHold(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process(redlock.WithFencing()).take("x", time.Minute)
		fence := lock.Fence()
		most := s.count(1, time.Hour) // as if others had raised the counters
		require.NoError(t, lock.Extend(bg, time.Minute))
		require.NoError(t, lock.Check(bg))
		require.Equal(t, fence, lock.Fence())
		require.Equal(t, most, s.counted(1, "x"), "an extension lowers no counter")
		require.NoError(t, lock.Release(bg))
		require.Equal(t, fence, lock.Fence())
	})
}

func TestAnExtensionTellsTheNumberToNodesThatLackIt(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process(redlock.WithFencing()).take("x", time.Minute)
		s.del(counter, 3)
		require.NoError(t, lock.Extend(bg, time.Minute))
		require.Equal(t, lock.Fence(), s.counted(3, "x"))
		s.set("x", "another's", time.Minute, 3)
		s.del(counter, 3)
		require.NoError(t, lock.Extend(bg, time.Minute))
		require.Zero(t, s.counted(3, "x"), "but only where the key is ours")
	})
}

func TestAShareHasTheNumberOfItsLock(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		lock := p.take("x", time.Minute)
		share, err := p.Acquire(lock.Context(), "x", time.Minute, redlock.WithShared())
		require.NoError(t, err)
		require.Equal(t, lock.Fence(), share.Fence())
	})
}

func TestALockWithoutANumberHasNoSharesUnderFencing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		claim, err := s.process().take("x", time.Minute).Detach()
		require.NoError(t, err)
		p := s.process(redlock.WithFencing())
		lock, err := p.Resume(bg, claim)
		require.NoError(t, err)
		_, err = p.Acquire(lock.Context(), "x", time.Minute, redlock.WithShared())
		require.ErrorIs(t, err, redlock.ErrInvalid)
	})
}

func TestAClaimCarriesTheNumber(t *testing.T) {
	for form, through := range map[string]func(c redlock.Claim) (again redlock.Claim){
		"as it is": func(c redlock.Claim) redlock.Claim { return c },
		"text": func(c redlock.Claim) (again redlock.Claim) {
			text, _ := c.MarshalText()
			_ = again.UnmarshalText(text)
			return again
		},
		"JSON": func(c redlock.Claim) (again redlock.Claim) {
			text, _ := json.Marshal(c)
			_ = json.Unmarshal(text, &again)
			return again
		},
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			lock := s.process(redlock.WithFencing()).take("x", time.Minute)
			claim, err := lock.Detach()
			require.NoError(t, err)
			again, err := s.process().Resume(bg, through(claim))
			require.NoError(t, err, form)
			require.Equal(t, lock.Fence(), again.Fence(), form)
			s.del(counter, 3)
			require.NoError(t, again.Extend(bg, time.Minute))
			require.Equal(t, lock.Fence(), s.counted(3, "x"), form)
		})
	}
}

func TestAClaimWithANumberThatNoNodeGaveIsRefused(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		claim, err := p.take("x", time.Minute).Detach()
		require.NoError(t, err)
		good := claim.Fence
		for _, bad := range []int64{-1, 1 << 53, math.MaxInt64, time.Now().Add(400 * 24 * time.Hour).UnixMicro()} {
			claim.Fence = bad
			_, err = p.Resume(bg, claim)
			require.ErrorIs(t, err, redlock.ErrInvalid, "%d", bad)
		}
		claim.Fence = good
		_, err = p.Resume(bg, claim)
		require.NoError(t, err)
	})
}

// Several names.

func TestALockOnSeveralNamesHasOneNumberAboveAllTheirCounters(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		most := s.count(1, time.Hour) // of x
		s.refuse(down, 3)
		lock := s.get(p.wants(bg, []string{"a", "x", "y"}, time.Minute))
		require.Equal(t, most+1, lock.Fence())
		for _, name := range []string{"a", "x", "y"} {
			require.Equal(t, most+1, s.counted(1, name), name)
			require.Equal(t, most+1, s.counted(2, name), name)
		}
		require.NoError(t, lock.Release(bg))
		require.Greater(t, p.take("a", time.Minute).Fence(), most+1)
	})
}

func TestNumbersIncreaseForEachNameOfOverlappingSets(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		last := map[string]int64{}
		for i, set := range [][]string{{"a"}, {"a", "b"}, {"b", "c"}, {"c"}, {"a", "c"}, {"b"}, {"a", "b", "c"}, {"a"}, {"b"}, {"c"}} {
			s.refuse(down, 1+i%3)
			lock := s.get(p.wants(bg, set, time.Minute))
			for _, name := range set {
				require.Greater(t, lock.Fence(), last[name], "%s of %v", name, set)
				last[name] = lock.Fence()
			}
			require.NoError(t, lock.Release(bg))
			s.heal(1 + i%3)
		}
	})
}

// Clocks, and nodes that forget.

func TestANumberIsTheTimeInMicrosecondsAsFarAsItMayBe(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		now := time.Now().UnixMicro()
		require.Equal(t, now, s.process(redlock.WithFencing()).fence())
	})
}

func TestANodeBelievesAClientsClockOnlyToASecondFromItsOwn(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			s.each(nil, func(m *fakeredis.Master) { m.SetClock(-off) }) // the client's is that far from theirs
			theirs := time.Now().Add(-off)
			fence := time.UnixMicro(s.process(redlock.WithFencing()).fence())
			require.LessOrEqual(t, fence.Sub(theirs).Abs(), time.Second)
		})
	}
}

func TestTheNodesClocksDoNotMatterIfNothingIsForgotten(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		last := int64(0)
		for i, ahead := range []time.Duration{time.Hour, -time.Hour, time.Minute, 24 * time.Hour, 0, -time.Second, 3 * time.Hour} {
			s.masters[i%3].SetClock(ahead)
			s.refuse(down, 1+(i+1)%3)
			fence := p.fence()
			require.Greater(t, fence, last)
			last = fence
			s.heal(1 + (i+1)%3)
		}
	})
}

func TestNumbersIncreaseAlsoWhenAllNodesHaveForgotten(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing())
		last := int64(0)
		for range 5 {
			fence := p.fence()
			require.Greater(t, fence, last)
			last = fence
			s.each(nil, (*fakeredis.Master).FlushAll)
			pass(time.Microsecond)
		}
	})
}

func TestUnderTheGuardNumbersIncreaseThoughANodeForgetsAndClocksDiffer(t *testing.T) {
	for _, ahead := range []time.Duration{0, 7 * time.Second, -7 * time.Second} { // less than 10 s less twice a second
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.guarded(redlock.WithFencing())
			s.masters[0].SetClock(ahead)
			s.refuse(down, 3)
			first := p.take("x", time.Second) // by n1 and n2
			require.NoError(t, first.Release(bg))
			s.heal(3)
			s.refuse(down, 1)
			s.restart(2)
			second := p.take("x", time.Second) // by n2 and n3, when n2 votes again
			require.Greater(t, second.Fence(), first.Fence(), "n1 is %v ahead", ahead)
		})
	}
}

func TestACounterExpiresAfterSevenDays(t *testing.T) {
	const week = 7 * 24 * time.Hour
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.process(redlock.WithFencing()).fence()
		for _, m := range s.masters {
			require.InDelta(t, week, m.TTL(counter), float64(2*time.Second))
		}
	})
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.count(1, time.Hour)
		s.process(redlock.WithFencing()).fence()
		require.InDelta(t, week+time.Hour, s.masters[0].TTL(counter), float64(2*time.Second), "when the time has overtaken it")
	})
}

func TestACounterThatIsNoNumberIsAnErrorAndNoVote(t *testing.T) {
	for _, bad := range []string{"word", "", "1.5", "-5", "inf", "nan", "9007199254740992"} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process(redlock.WithFencing())
			s.set(counter, bad, 0, 2)
			lock := p.take("x", time.Minute)
			require.Equal(t, []int{1, 3}, s.having("x"), bad)
			require.NoError(t, lock.Release(bg))
			s.set(counter, bad, 0, 3)
			_, err := p.TryAcquire(bg, "x", time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, bad)
			require.ErrorContains(t, err, "fence counter")
			require.Empty(t, s.left())
		})
	}
}
