package redlock_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// Promise 7, speed: few system calls for many operations at once. These tests count commands and
// writes; docs/benchmarks.md has times.

// written counts what a process has written to its nodes: commands, and writes to their sockets.
func (p *process) written() (commands, writes int) {
	synctest.Wait()
	for _, n := range p.nodes {
		stats := n.Stats()
		commands, writes = commands+int(stats.Written), writes+int(stats.Writes)
	}
	return commands, writes
}

// writes returns how many commands and writes a process needs for f.
func (p *process) writes(f func()) (commands, writes int) {
	commandsBefore, writesBefore := p.written()
	f()
	commands, writes = p.written()
	return commands - commandsBefore, writes - writesBefore
}

// warm makes a process load the scripts of acquires and releases.
func (p *process) warm() *process {
	for range 2 {
		_ = p.take("warm-up", time.Second).Release(bg)
	}
	return p
}

// One lock.

func TestAnAcquireIsOneCommandForEachNodeAndSoIsARelease(t *testing.T) {
	for what, opts := range map[string][]redlock.Option{"plain": nil, "fenced": {redlock.WithFencing()}} {
		onMasters(t, 3, func(t *testing.T, s *system) {
			p := s.process(opts...).warm()
			var lock *redlock.Lock
			commands, writes := p.writes(func() { lock = p.take("x", time.Minute) })
			require.Equal(t, []int{3, 3}, []int{commands, writes}, what)
			commands, writes = p.writes(func() { require.NoError(t, lock.Release(bg)) })
			require.Equal(t, []int{3, 3}, []int{commands, writes}, what)
		})
	}
}

func TestUnderTheGuardALockTakesNoMoreCommands(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.guarded(redlock.WithFencing()).warm()
		commands, writes := p.writes(func() { require.NoError(t, p.take("x", time.Second).Release(bg)) })
		require.Equal(t, []int{6, 6}, []int{commands, writes})
	})
}

func TestSeveralNamesAreOneCommand(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		all := func() { require.NoError(t, s.get(p.wants(bg, []string{"a", "b", "c"}, time.Minute)).Release(bg)) }
		all()
		commands, _ := p.writes(all)
		require.Equal(t, 6, commands)
	})
}

func TestALockOnTheWireIsThatOfTheRedisDocumentation(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		lock := s.process().take("x", 10*time.Second)
		for n := range 3 {
			require.Equal(t, [][]string{{"SET", "x", lock.Token(), "NX", "PX", "10000"}}, s.sent(n+1, lockCommands...))
		}
	})
}

func TestScriptsAreSentOnceAndThenByTheirHash(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process(redlock.WithFencing()).warm()
		s.forget()
		for range 10 {
			require.NoError(t, p.take("x", time.Minute).Release(bg))
		}
		require.Empty(t, s.sent(0, "EVAL", "SCRIPT"))
		s.each(nil, (*fakeredis.Master).FlushScripts)
		require.NoError(t, p.take("x", time.Minute).Release(bg), "a server may forget them")
	})
}

func TestAnExtensionAndACheckAreOneCommandForEachNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		require.NoError(t, lock.Extend(bg, time.Minute))
		require.NoError(t, lock.Check(bg))
		commands, _ := p.writes(func() { require.NoError(t, lock.Extend(bg, time.Minute)) })
		require.Equal(t, 3, commands)
		commands, _ = p.writes(func() { require.NoError(t, lock.Check(bg)) })
		require.Equal(t, 3, commands)
	})
}

func TestAShareSendsNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		commands, _ := p.writes(func() {
			share, err := p.Acquire(lock.Context(), "x", time.Minute, redlock.WithShared(), redlock.WithAutoExtend())
			require.NoError(t, err)
			pass(50 * time.Second)
			require.NoError(t, share.Release(bg))
		})
		require.LessOrEqual(t, commands, 3*5, "five checks of each node")
		require.Len(t, s.sent(0, lockCommands...), 3, "the acquire")
	})
}

func TestANodeThatRefusedIsSentNoUndo(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Minute)
		s.slow(time.Millisecond, 3) // n1 and n2 refuse first
		s.forget()
		_, err := b.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Len(t, s.sent(1, lockCommands...), 2, "the attempt, and the question for the holder")
		require.Len(t, s.sent(2, lockCommands...), 2)
	})
}

func TestANodeThatSurelyExecutedNothingIsSentOneUndo(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.refuse("BUSY Redis is busy running a script.", 2)
		require.NoError(t, p.take("x", time.Hour).Release(bg))
		pass(10 * time.Second)
		require.LessOrEqual(t, len(s.sent(2, lockCommands...)), 2, "an acquire and its undo")
	})
}

// Many locks at once.

func TestManyLocksAtOnceShareWrites(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process().warm()
		commands, writes := p.writes(func() {
			for range 10 {
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() {
						if lock, err := p.Acquire(bg, strconv.Itoa(i), time.Minute); assert.NoError(t, err) {
							assert.NoError(t, lock.Release(bg))
						}
					})
				}
				all.Wait()
			}
		})
		require.LessOrEqual(t, commands, 3000+3, "a node may have to load the script of merged releases")
		require.Less(t, writes, 2700, "goroutines that run at the same time share writes, however they are scheduled")
		require.Empty(t, s.left())
	})
}

func TestReleasesAtOnceShareCommands(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process().warm()
		var locks []*redlock.Lock
		for i := range 100 {
			locks = append(locks, p.take(strconv.Itoa(i), time.Minute, redlock.WithAsyncRelease()))
		}
		s.forget()
		for _, lock := range locks {
			require.NoError(t, lock.Release(bg))
		}
		require.Empty(t, s.left())
		require.Less(t, len(s.sent(0, "EVALSHA")), 2*len(locks), "of three for each lock")
	})
}

func TestExtensionsThatAreDueTogetherShareWrites(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		for i := range 100 {
			p.take(strconv.Itoa(i), 30*time.Second, redlock.WithAutoExtend())
		}
		commands, writes := p.writes(func() { pass(11 * time.Second) })
		require.GreaterOrEqual(t, commands, 300)
		require.Less(t, writes, 150)
	})
}

func TestAnyNumberOfLocksUsesOneConnectionForEachNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		for i := range 100 {
			p.take(strconv.Itoa(i), time.Minute)
		}
		for _, m := range s.masters {
			require.Equal(t, 1, m.Connections())
		}
	})
}

func TestAHeldLockIsExtendedOnceInAThirdOfItsValidity(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.process().take("x", 30*time.Second, redlock.WithAutoExtend())
		s.slow(400 * time.Millisecond) // which does not count
		pass(10 * validity(30*time.Second))
		require.InDelta(t, 30, len(s.sent(1, "EVALSHA")), 1)
	})
}

func TestALockThatIsNotExtendedSendsNothing(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		p.take("x", time.Hour)
		s.forget()
		pass(50 * time.Minute)
		require.Empty(t, s.sent(0, lockCommands...))
	})
}

func TestAnIdleProcessSendsOneCheckInTenSecondsToEachNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.process()
		pass(time.Minute)
		s.forget()
		pass(100 * time.Second)
		require.LessOrEqual(t, len(s.sent(0)), 3*12)
	})
}

// Waiting.

func TestALockGoesToTheNextWaiterOfTheProcessInOneWrite(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		lock := p.take("x", time.Minute)
		for i := range 10 {
			waiting := p.wants(bg, []string{"x"}, time.Minute)
			commands, writes := p.writes(func() {
				require.NoError(t, lock.Release(bg))
				lock = s.get(waiting)
			})
			if i > 1 { // the first loads the scripts
				require.Equal(t, []int{6, 3}, []int{commands, writes})
			}
		}
	})
}

func TestOnlyTheFirstWaiterOfAProcessAsksTheNodes(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Hour)
		for range 50 {
			b.wants(bg, []string{"x"}, time.Minute)
		}
		pass(3 * time.Second)
		s.forget()
		pass(10 * time.Second)
		require.LessOrEqual(t, len(s.sent(0, "PTTL")), 3*11)
		require.Empty(t, s.sent(0, lockCommands...))
	})
}

func TestAWaiterAsksEachNodeOnceASecondAndMakesNoAttempt(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a := s.process()
		a.take("x", time.Hour)
		for range 10 {
			s.process().wants(bg, []string{"x"}, time.Minute)
		}
		pass(3 * time.Second)
		s.forget()
		pass(4 * time.Second)
		require.LessOrEqual(t, len(s.sent(0, "PTTL")), 3*50)
		require.LessOrEqual(t, len(s.sent(0)), 3*60)
		require.Empty(t, s.sent(0, lockCommands...))
	})
}

func TestTheWaitersOfAProcessShareOneSubscriptionForEachNode(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		for i := range 20 {
			a.take(strconv.Itoa(i), time.Hour)
			b.wants(bg, []string{strconv.Itoa(i)}, time.Minute)
		}
		pass(10 * time.Second)
		for _, m := range s.masters {
			require.Equal(t, 3, m.Connections(), "of a, of b, and the subscription")
		}
	})
}

func TestAReleaseWakesAWaiterOfAnotherProcessAtOnce(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		for range 10 {
			lock := a.take("x", time.Minute)
			waiting := b.wants(bg, []string{"x"}, time.Minute)
			pass(2500 * time.Millisecond)
			require.Less(t, elapsed(func() {
				require.NoError(t, lock.Release(bg))
				require.NoError(t, s.get(waiting).Release(bg))
			}), 20*time.Millisecond)
			pass(5 * time.Second)
		}
	})
}

func TestAWaiterThatMissesAnAnnouncementLosesASecond(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		lock := a.take("x", time.Minute)
		waiting := b.wants(bg, []string{"x"}, time.Minute)
		pass(3 * time.Second)
		s.each(nil, func(m *fakeredis.Master) { m.Clients()[2].HoldReplies() }) // the subscription of b
		released := time.Now()
		require.NoError(t, lock.Release(bg))
		s.get(waiting)
		require.LessOrEqual(t, time.Since(released), 1100*time.Millisecond)
	})
}

func TestAnnouncementsInVainAreFollowedByFewAttempts(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		a.take("x", time.Hour)
		b.wants(bg, []string{"x"}, time.Minute)
		pass(3 * time.Second)
		s.forget()
		for range 200 {
			for n := range 3 {
				s.send(n+1, "PUBLISH", "redlock:free:x", "")
			}
			pass(50 * time.Millisecond)
		}
		require.LessOrEqual(t, s.masters[0].Commands()["SET"], 50, "after 200 announcements")
	})
}

func TestAHolderThatAnnouncesNothingIsAskedForOften(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		s.set("x", "vUaK0H9tNXAZqK8q1vUaKQ==", time.Hour) // the token of another library
		waiting := s.process().wants(bg, []string{"x"}, time.Minute)
		pass(3 * time.Second)
		s.forget()
		pass(10 * time.Second)
		require.InDelta(t, 85, s.masters[0].Commands()["PTTL"], 50, "every 50 to 250 ms")
		require.Empty(t, s.sent(0, lockCommands...))
		freed := time.Now()
		s.del("x")
		s.get(waiting)
		require.LessOrEqual(t, time.Since(freed), 250*time.Millisecond)
	})
}

func TestAWaiterTriesWhenTheHoldersKeysExpire(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		const holder, left = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 2077 * time.Millisecond
		s.set("x", holder, time.Second)
		waiting := s.process().wants(bg, []string{"x"}, time.Minute)
		s.set("x", holder, time.Hour)
		pass(10 * time.Second)
		s.set("x", holder, left) // as it extended last, before it crashed
		took := elapsed(func() { s.get(waiting) })
		require.GreaterOrEqual(t, took, left)
		require.LessOrEqual(t, took, left+10*time.Millisecond)
	})
}

func TestNoAttemptIsMadeWhileTooFewNodesCouldGrantIt(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		p := s.process()
		s.kill(1)
		s.set("x", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", time.Hour, 2)
		p.wants(bg, []string{"x"}, time.Minute)
		pass(10 * time.Second)
		s.forget()
		pass(10 * time.Second)
		require.Empty(t, s.sent(0, lockCommands...))
	})
}

func TestAProcessDoesNotKeepALockFromOthersByHandingItOver(t *testing.T) {
	onMasters(t, 3, func(t *testing.T, s *system) {
		a, b := s.process(), s.process()
		ctx, cancel := context.WithCancel(bg)
		var work sync.WaitGroup
		defer work.Wait()
		defer cancel()
		for range 8 { // a is always busy with the name
			work.Go(func() {
				for ctx.Err() == nil {
					_ = a.Do(ctx, "x", time.Minute, func(context.Context, *redlock.Lock) error {
						time.Sleep(time.Millisecond)
						return nil
					})
				}
			})
		}
		pass(100 * time.Millisecond)
		require.Less(t, elapsed(func() { require.NoError(t, b.take("x", time.Minute).Release(bg)) }), 5*time.Second)
	})
}

// meter is a connection that counts the bytes that it receives.
type meter struct {
	net.Conn
	received *atomic.Int64
}

func (m meter) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	m.received.Add(int64(n))
	return n, err
}

func TestAValueThatIsTooLongForATokenIsNotDownloaded(t *testing.T) {
	onMasters(t, 1, func(t *testing.T, s *system) {
		var received atomic.Int64
		n, err := pool.Open(pool.Config{Name: "n1", Address: "n1", Clock: clock.Runtime(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := s.masters[0].Dial(ctx, "", "")
			return meter{conn, &received}, err
		}})
		require.NoError(t, err)
		l, err := redlock.New([]*pool.Node{n}, redlock.WithClock(clock.Runtime()))
		require.NoError(t, err)
		defer l.Close(bg)
		s.set("x", strings.Repeat("x", 1<<20), time.Hour)
		_, err = l.TryAcquire(bg, "x", time.Minute)
		require.ErrorIs(t, err, redlock.ErrHeld)
		_, err = l.Inspect(bg, "x")
		require.NoError(t, err)
		require.Less(t, received.Load(), int64(1<<16))
	})
}
