package redlock_test

import (
	"bytes"
	"context"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 4: a dead, frozen or slow minority costs nothing: no latency, no goroutine, and no
// connection beyond a few.

// nodeTimeout is how long an answer of a node is waited for, if the TTL is at least 2 s.
const nodeTimeout = 500 * time.Millisecond

// trip is the round trip to the nodes that are well.
const trip = 5 * time.Millisecond

// minority has the ways in which a node may fail.
var minority = map[string]func(s *system, n int){
	"frozen":            func(s *system, n int) { s.freeze(n) },
	"dead":              func(s *system, n int) { s.kill(n) },
	"slow":              func(s *system, n int) { s.slow(time.Second, n) },
	"busy":              func(s *system, n int) { s.masters[n-1].FailWith("*", "BUSY Redis is busy running a script.") },
	"loading":           func(s *system, n int) { s.refuse("LOADING Redis is loading the dataset in memory", n) },
	"out of memory":     func(s *system, n int) { s.refuse("OOM command not allowed", n) },
	"without rights":    func(s *system, n int) { s.refuse("NOPERM User default has no permissions", n) },
	"a replica":         func(s *system, n int) { s.masters[n-1].SetInfo("role", "slave"); s.restart(n) },
	"empty":             func(s *system, n int) { s.restart(n) },
	"answering at will": func(s *system, n int) { s.refuse("*2\r\n:1\r\n$-1", n) },
	"held by a crash":   func(s *system, n int) { s.set("x", "of a process that crashed", time.Hour, n) },
}

// withMinority runs f once for each way, when a node has failed in it.
func withMinority(t *testing.T, f func(t *testing.T, s *system, p *process)) {
	t.Helper()
	for what, fail := range minority {
		t.Run(what, func(t *testing.T) {
			onMasters(t, 3, func(t *testing.T, s *system) {
				p := s.process()
				s.slow(trip)
				fail(s, 2)
				f(t, s, p)
			})
		})
	}
}

// Latency.

func TestAnAcquireAndAReleaseTakeOneRoundTripEachBesideAFailedMinority(t *testing.T) {
	withMinority(t, func(t *testing.T, _ *system, p *process) {
		for range 5 {
			var lock *redlock.Lock
			var err error
			require.Equal(t, trip, elapsed(func() { lock, err = p.TryAcquire(bg, "x", time.Minute) }))
			require.NoError(t, err)
			require.Equal(t, trip, elapsed(func() { err = lock.Release(bg) }))
			require.NoError(t, err)
			pass(time.Second)
		}
	})
}

func TestAnyMinorityMayBeFrozen(t *testing.T) {
	for _, c := range []struct{ nodes, frozen int }{{1, 0}, {3, 1}, {4, 1}, {5, 2}, {7, 3}} {
		onMasters(t, c.nodes, func(t *testing.T, s *system) {
			p := s.process()
			s.slow(trip)
			for n := range c.frozen {
				s.freeze(n + 1)
			}
			var lock *redlock.Lock
			require.Equal(t, trip, elapsed(func() { lock, _ = p.TryAcquire(bg, "x", time.Minute) }))
			require.Equal(t, trip, elapsed(func() { require.NoError(t, lock.Release(bg)) }))
		})
	}
}

func TestExtensionsAndChecksTakeOneRoundTripBesideAFrozenNode(t *testing.T) {
	for n := range 3 {
		onMasters(t, 3, func(t *testing.T, s *system) {
			lock := s.process().take("x", time.Minute)
			s.slow(trip)
			s.freeze(n + 1)
			require.Equal(t, trip, elapsed(func() { require.NoError(t, lock.Extend(bg, time.Minute)) }))
			require.Equal(t, trip, elapsed(func() { require.NoError(t, lock.Check(bg)) }))
		})
	}
}

func TestThatANameIsHeldIsKnownAtOnceBesideAFrozenNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Minute)
		s.slow(trip)
		s.freeze(2)
		var err error
		require.Equal(t, 2*trip, elapsed(func() { _, err = b.TryAcquire(bg, "x", time.Minute) }))
		require.ErrorIs(t, err, redlock.ErrHeld)
	})
}

func TestAWaiterHearsOfAReleaseAtOnceBesideAFailedNode(t *testing.T) {
	for what, fail := range map[string]func(s *system){
		"frozen": func(s *system) { s.freeze(2) },
		"dead":   func(s *system) { s.kill(2) },
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			a, b := s.process(), s.process()
			fail(s)
			lock := a.take("x", time.Minute)
			waiting := b.wants(bg, []string{"x"}, time.Minute)
			pass(10 * time.Second)
			released := time.Now()
			require.NoError(t, lock.Release(bg))
			s.get(waiting)
			require.LessOrEqual(t, time.Since(released), 50*time.Millisecond, what)
		})
	}
}

func TestALockIsHandedOverAtOnceBesideAFrozenNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		s.slow(trip)
		s.freeze(2)
		for range 10 {
			waiting := p.wants(bg, []string{"x"}, time.Minute)
			require.Equal(t, trip, elapsed(func() {
				require.NoError(t, lock.Release(bg))
				lock = s.get(waiting)
			}))
		}
	})
}

func TestATieWaitsForANodeThatIsFarAndNotSilent(t *testing.T) {
	const far = 200 * time.Millisecond
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.slow(far, 3)
		require.NoError(t, p.take("warm-up", time.Minute).Release(bg))
		pass(time.Second)
		s.set("x", "of a process that crashed", time.Hour, 1)
		var err error
		took := elapsed(func() { _, err = p.TryAcquire(bg, "x", time.Minute) })
		require.NoError(t, err)
		require.Less(t, took, far+50*time.Millisecond, "two attempts show that the key stays")
	})
}

// Contenders that have a vote each would keep it until the distant node has answered.
func TestContendersDoNotWaitForANodeThatIsFar(t *testing.T) {
	holds := func(contenders int, far time.Duration) (n int64) {
		onMasters(t, 3, func(_ *testing.T, s *system) {
			ctx, cancel := context.WithTimeout(bg, 2*time.Second)
			defer cancel()
			var all sync.WaitGroup
			var held atomic.Int64
			var each []*process
			for range contenders {
				each = append(each, s.process())
			}
			s.slow(time.Millisecond)
			s.slow(far, 3)
			for _, p := range each {
				all.Go(func() {
					for {
						lock, err := p.Acquire(ctx, "x", time.Minute)
						if err != nil {
							return
						}
						time.Sleep(5 * time.Millisecond)
						held.Add(1)
						_ = lock.Release(bg)
					}
				})
			}
			all.Wait()
			n = held.Load()
		})
		return n
	}
	for _, contenders := range []int{2, 10} {
		near := holds(contenders, time.Millisecond)
		for _, far := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond} {
			require.Greater(t, holds(contenders, far), near/2, "%d contenders, %v away", contenders, far)
		}
	}
}

func TestATieDoesNotWaitForANodeThatIsSilent(t *testing.T) {
	for _, far := range []time.Duration{200 * time.Millisecond, 300 * time.Millisecond} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			var took []time.Duration
			p := s.process(redlock.WithTrace(&redlock.Trace{Attempt: func(e redlock.RoundEvent) { took = append(took, e.Took) }}))
			s.slow(far, 3)
			require.NoError(t, p.take("warm-up", time.Minute).Release(bg))
			pass(time.Second)
			s.set("x", "of a process that crashed", time.Hour, 1)
			s.freeze(3)
			for range 2 { // the first finds that n3 is silent
				took = nil
				_, err := p.TryAcquire(bg, "x", time.Minute)
				require.ErrorIs(t, err, redlock.ErrHeld)
				synctest.Wait()
			}
			for _, d := range took {
				require.LessOrEqual(t, d, 20*time.Millisecond)
			}
		})
	}
}

func TestANearNodeThatRefusesDoesNotOutvoteTheFarOnes(t *testing.T) {
	for _, far := range []time.Duration{time.Millisecond, 15 * time.Millisecond, 60 * time.Millisecond, 200 * time.Millisecond} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.set("x", "of a process that crashed", time.Hour, 1)
			s.slow(far, 2)
			s.slow(far+trip, 3)
			lock, err := p.TryAcquire(bg, "x", time.Minute)
			require.NoError(t, err, "%v away", far)
			require.NoError(t, lock.Release(bg))
		})
	}
}

func TestALockIsKeptForAnyTimeBesideAFailedMinority(t *testing.T) {
	withMinority(t, func(t *testing.T, _ *system, p *process) {
		lock := p.take("x", 10*time.Second, redlock.WithAutoExtend())
		for range 6 {
			pass(10 * time.Second)
			require.Greater(t, lock.Remaining(), 6*time.Second)
		}
		require.NoError(t, lock.Context().Err())
		require.NoError(t, lock.Release(bg))
	})
}

func TestANodeInQuarantineCostsNoTime(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.guarded()
		s.restart(2)
		s.slow(trip)
		pass(time.Second)
		require.Equal(t, trip, elapsed(func() { p.take("x", time.Second) }))
		require.Equal(t, []int{1, 3}, s.having("x"))
	})
}

func TestThatAMajorityIsDeadIsKnownAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.kill(1, 2)
		pass(time.Minute)
		var err error
		require.Zero(t, elapsed(func() { _, err = p.TryAcquire(bg, "x", time.Minute) }))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
	})
}

func TestANodeThatIsWellAgainVotesWithinASecond(t *testing.T) {
	for what, fail := range map[string]func(s *system){
		"dead":    func(s *system) { s.kill(1, 2) },
		"frozen":  func(s *system) { s.freeze(1, 2) },
		"loading": func(s *system) { s.refuse("LOADING Redis is loading the dataset in memory", 1, 2) },
	} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			fail(s)
			_, err := p.TryAcquire(bg, "x", time.Minute)
			require.ErrorIs(t, err, redlock.ErrNoQuorum, what)
			pass(time.Minute)
			s.heal()
			require.LessOrEqual(t, elapsed(func() { p.take("x", time.Minute) }), time.Second, what)
		})
	}
}

// Goroutines, connections and memory.

// goroutines counts the goroutines of the test.
func goroutines() int {
	synctest.Wait()
	dump := make([]byte, 1<<22)
	all := bubble.FindAll(dump[:runtime.Stack(dump, true)], -1) // the first is the caller's
	return len(slices.DeleteFunc(all, func(b []byte) bool { return !bytes.Equal(b, all[0]) }))
}

var bubble = regexp.MustCompile(`synctest bubble \d+`)

func TestNoGoroutineWaitsForAFailedMinority(t *testing.T) {
	for what, fail := range map[string]func(s *system){"frozen": func(s *system) { s.freeze(2) }, "slow": func(s *system) { s.slow(time.Minute, 2) }} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			lock := p.take("warm-up", time.Minute)
			require.NoError(t, lock.Release(bg))
			base := goroutines()
			fail(s)
			for i := range 100 {
				lock := p.take(strconv.Itoa(i), time.Hour)
				require.NoError(t, lock.Release(bg))
			}
			require.Equal(t, base, goroutines(), what)
		})
	}
}

func TestAMinorityHasFewConnectionsWhateverItDoes(t *testing.T) {
	withMinority(t, func(t *testing.T, s *system, p *process) {
		for i := range 30 {
			lock := s.get(p.wants(bg, []string{strconv.Itoa(i)}, time.Hour))
			require.NoError(t, lock.Release(bg))
			pass(100 * time.Millisecond)
			require.LessOrEqual(t, p.nodes[1].Stats().Connected, 1)
		}
		s.heal()
		s.masters[1].FailWith("*", "")
		pass(10 * time.Second)
		require.LessOrEqual(t, s.masters[1].Connections(), 1)
	})
}

func TestADeadNodeIsDialledAFewTimesASecond(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.kill(2)
		pass(time.Minute)
		before := p.nodes[1].Stats().Dials
		for i := range 100 {
			lock := p.take(strconv.Itoa(i), time.Hour)
			require.NoError(t, lock.Release(bg))
			pass(100 * time.Millisecond)
		}
		require.LessOrEqual(t, p.nodes[1].Stats().Dials-before, int64(50), "in ten seconds")
	})
}

func TestANodeThatDropsEachConnectionIsDialledAFewTimesASecond(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		for range 500 { // for ten seconds, each connection ends soon
			for _, c := range s.masters[1].Clients() {
				c.Drop()
			}
			pass(20 * time.Millisecond)
		}
		require.LessOrEqual(t, p.nodes[1].Stats().Dials, int64(100))
	})
}

func TestAConnectionThatHasLivedIsMadeAgainAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.kill(2)
		pass(time.Minute)
		s.heal()
		pass(10 * time.Second)
		for _, c := range s.masters[1].Clients() {
			c.Drop()
		}
		synctest.Wait()
		require.Equal(t, 1, p.nodes[1].Stats().Connected)
	})
}

func TestAnErrorHasANodeCheckedSoonAndNotOften(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.refuse("ERR something is wrong", 2)
		s.forget()
		for i := range 100 {
			require.NoError(t, p.take(strconv.Itoa(i), time.Minute).Release(bg))
			pass(20 * time.Millisecond)
		}
		checks := len(s.sent(2, "INFO"))
		require.GreaterOrEqual(t, checks, 1, "in two seconds")
		require.LessOrEqual(t, checks, 3)
	})
}

func TestLittleIsWrittenToAFrozenNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.freeze(3)
		p.take("x", time.Minute)
		pass(2 * time.Second)
		before, beforeOther := p.nodes[2].Stats().Writes, p.nodes[0].Stats().Writes
		for i := range 100 {
			require.NoError(t, p.take(strconv.Itoa(i), time.Minute).Release(bg))
			pass(time.Millisecond)
		}
		require.Less(t, p.nodes[2].Stats().Writes-before, (p.nodes[0].Stats().Writes-beforeOther)*3/4)
	})
}

func TestLittleIsQueuedDuringADial(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.freeze(3)
		p.conn(3).Drop()
		synctest.Wait()
		for i := range 300 {
			require.NoError(t, p.take(strconv.Itoa(i), time.Minute).Release(bg))
			pass(5 * time.Millisecond)
			require.Less(t, p.nodes[2].Stats().Queued, 100)
		}
	})
}

func TestLittleIsQueuedForAFrozenNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.freeze(3)
		for i := range 300 {
			lock := p.take(strconv.Itoa(i), time.Hour)
			require.NoError(t, lock.Release(bg))
			pass(10 * time.Millisecond)
			require.Less(t, p.nodes[2].Stats().Queued, 300)
		}
		s.heal()
		pass(time.Second)
		require.Zero(t, p.nodes[2].Stats().Queued)
		require.Empty(t, s.left())
	})
}

func TestNothingIsQueuedForADeadNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.kill(3)
		pass(time.Second)
		for i := range 100 {
			lock := p.take(strconv.Itoa(i), time.Hour)
			require.NoError(t, lock.Release(bg))
		}
		require.Zero(t, p.nodes[2].Stats().Queued)
	})
}

func TestAFailingNodeGetsTwoCommandsASecondFromAnIdleProcess(t *testing.T) {
	for _, failing := range [][]string{{"*"}, lockCommands} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			var locks []*redlock.Lock
			for i := range 50 {
				locks = append(locks, p.take(strconv.Itoa(i), time.Hour))
			}
			for _, name := range failing {
				s.masters[1].FailWith(name, "BUSY Redis is busy running a script.")
			}
			for _, lock := range locks { // n2 has these keys to delete
				require.NoError(t, lock.Release(bg))
			}
			pass(10 * time.Second)
			s.forget()
			pass(10 * time.Second)
			require.LessOrEqual(t, len(s.sent(2)), 21)
		})
	}
}

func TestANodeThatContinuesIsLeftWithoutKeys(t *testing.T) {
	for _, frozen := range []time.Duration{100 * time.Millisecond, 4 * time.Second, 30 * time.Second} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process()
			s.freeze(3)
			for i := range 50 {
				lock := p.take(strconv.Itoa(i), time.Hour)
				require.NoError(t, lock.Release(bg))
			}
			pass(frozen)
			s.heal()
			pass(time.Second)
			require.Empty(t, s.left(), "after %v", frozen)
		})
	}
}

func TestFailuresOfThisManyNodesAreTolerated(t *testing.T) {
	for nodes, tolerated := range map[int]int{1: 0, 2: 0, 3: 1, 4: 1, 5: 2} {
		onMasters(t, nodes, func(t *testing.T, s *system) {
			p := s.process()
			for dead := range nodes {
				lock, err := p.TryAcquire(bg, "x", time.Minute)
				require.Equal(t, dead <= tolerated, err == nil, "%d of %d are dead", dead, nodes)
				if err == nil {
					require.NoError(t, lock.Release(bg))
				}
				s.kill(dead + 1)
				pass(time.Second)
			}
		})
	}
}
