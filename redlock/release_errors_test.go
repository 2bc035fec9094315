package redlock

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
)

const (
	scriptRuns  = "BUSY Redis is busy running a script."
	clusterDown = "CLUSTERDOWN The cluster is down"
)

// One node of three answers everything, or all commands of locks, by errors. The others make a
// quorum at once. No lease is left, and the commands to the failing node end.
func TestANodeThatAnswersByErrorsCostsTheOthersNothing(t *testing.T) {
	const clients, rounds = 8, 50
	for _, says := range []string{scriptRuns, clusterDown, "MISCONF Errors", "OOM no memory", "NOREPLICAS Not enough"} {
		for _, commands := range [][]string{{"*"}, {"SET", "EVALSHA", "EVAL"}} {
			inBubble(t, 3, func(fl *testbed) {
				fl.lateAt(2) // it fails
				l, m := fl.locker(), fl.masters[2]
				for _, c := range commands {
					m.FailWith(c, says)
				}
				m.ForgetLog()
				began := time.Now()
				var all sync.WaitGroup
				for i := range clients {
					all.Go(func() {
						for range rounds {
							k, err := l.TryAcquire(bg, strconv.Itoa(i), time.Minute)
							if err != nil || k.Release(bg) != nil {
								t.Error("no lock", says, err)
								return
							}
							time.Sleep(100 * time.Millisecond)
						}
					})
				}
				all.Wait()
				require.Equal(t, rounds*100*time.Millisecond, time.Since(began), "nobody waited for it")
				fl.answered()
				require.Zero(t, booked(l))
				if len(commands) == 1 {
					require.Less(t, len(m.Log()), 2*clients*20, "of a second or two, and not of five")
				}
				pass(10 * time.Second)
				m.ForgetLog()
				pass(10 * time.Second)
				require.LessOrEqual(t, len(m.Log()), 21)
				require.Zero(t, statsOf(l.nodes[2]).ParkedUndos)
				for _, c := range commands {
					m.FailWith(c, "")
				}
				pass(recheckAfter + lateness())
				take(t, l, "x", time.Minute)
				require.Equal(t, 3, fl.keys("x"), "it votes again")
			})
		}
	}
}

// recheckAfter is the time after which a node votes again once its health checks succeed.
const recheckAfter = time.Second

// A node did not execute the acquire, but a repair gave it the token.
func TestTheUndoOfARepairedLockIsRepeated(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, m := fl.guarded(WithRepair()), fl.masters[2]
		m.Hook(func(_ int64, cmd string, args []string) (string, bool) {
			return scriptRuns, isScript(command.Acquire, cmd, args)
		})
		k := take(t, l, "a", 8*time.Second)
		m.Hook(nil)
		require.Equal(t, 2, fl.keys("a"))
		require.NoError(t, k.Extend(bg, 8*time.Second))
		fl.heldEverywhere("a")
		over := overloaded(m)
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		require.Equal(t, 1, booked(l))
		over()
		pass(time.Second)
		require.Zero(t, fl.keys("a"))
		require.Zero(t, booked(l))
	})
}

// A node did not execute the acquire, but a process that held the claim gave it the token.
func TestTheUndoOfAResumedLockIsRepeated(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, m := fl.locker(), fl.masters[2]
		m.FailWith("SET", scriptRuns)
		k := take(t, l, "a", 8*time.Second)
		claim, err := k.Detach()
		require.NoError(t, err)
		m.Set("a", claim.Token, 8*time.Second)
		k, err = l.Resume(bg, claim)
		require.NoError(t, err)
		over := overloaded(m)
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		require.Equal(t, 1, booked(l))
		over()
		pass(time.Second)
		require.Zero(t, fl.keys("a"))
	})
}

// The control of both: the same lock, neither repaired nor resumed.
func TestTheUndoOfALockThatANodeSurelyHasNotIsSentOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l, m := fl.locker(), fl.masters[2]
		m.FailWith("SET", scriptRuns)
		k := take(t, l, "a", 8*time.Second)
		pass(time.Second) // also after the lock has dropped its acquisition
		defer overloaded(m)()
		m.ForgetLog()
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Zero(t, booked(l))
		pass(10 * time.Second)
		require.Equal(t, 1, scripts(m, "release"))
	})
}

// While a node's health checks fail, a held lock is still extended and released on it.
func TestExtensionsGoOutWhileChecksFail(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 30*time.Second)
		for _, m := range fl.masters {
			m.FailWith("INFO", scriptRuns)
		}
		pass(15 * time.Second)
		_, err := l.TryAcquire(bg, "b", time.Second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.ErrorIs(t, err, ErrUnfit)
		require.ErrorContains(t, err, scriptRuns)
		require.NoError(t, k.Extend(bg, time.Minute))
		require.Greater(t, k.Remaining(), 50*time.Second)
		require.NoError(t, k.Release(bg))
		fl.releasedEverywhere("a")
	})
}
