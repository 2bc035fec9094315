package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
)

// docs/dev/rules.md rule 21: release and acquire are sent in one write, in this order, on every
// node. Nothing is announced, and the next holder has a token of its own.
func TestALockIsHandedOverInOneFlush(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := takeAtOnce(t, l, "a", time.Minute)
		for range 2 { // the first handoff loads the script
			done := wants(bg, l, "a")
			synctest.Wait()
			require.NoError(t, k.Release(bg))
			k = gets(t, done).k
		}
		done := wants(bg, l, "a")
		synctest.Wait()
		var before, after [3]pool.Stats
		for i, n := range l.nodes {
			before[i] = statsOf(n)
		}
		require.NoError(t, k.Release(bg))
		next := gets(t, done)
		fl.answered()
		for i, n := range l.nodes {
			after[i] = statsOf(n)
			require.Equal(t, int64(2), after[i].Written-before[i].Written)
			require.Equal(t, int64(1), after[i].Writes-before[i].Writes)
			names := scriptNames(fl.masters[i])
			require.Equal(t, []string{"release", "SET"}, names[len(names)-2:])
			token, _ := fl.masters[i].Get("a")
			require.Equal(t, next.k.Token(), token)
		}
		require.NotEqual(t, k.Token(), next.k.Token())
		require.NoError(t, next.k.Release(bg))
	})
}

// docs/dev/hazards.md H96: the validity counts from the next attempt's own start.
func TestWhatIsHandedOverCountsItsOwnValidity(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Hour)
		done := waitingFor(bg, l, "a")
		fl.each(func(m *fakeredis.Master) { m.SetDelay(50 * time.Millisecond) })
		require.NoError(t, k.Release(bg))
		next := gets(t, done)
		require.Equal(t, worth(time.Minute)-50*time.Millisecond, next.k.Remaining())
		pass(next.k.Remaining())
		require.ErrorIs(t, context.Cause(next.k.Context()), ErrLost)
	})
}

// docs/dev/hazards.md H96: all holders' tokens are distinct, and so are their fences, which
// increase.
func TestAChainOfHoldersHasTokensAndFencesOfItsOwn(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		k := take(t, l, "a", time.Minute)
		tokens := map[string]bool{k.Token(): true}
		var all []<-chan won
		for range 40 {
			all = append(all, wants(bg, l, "a"))
			fl.answered()
		}
		for i, done := range all {
			fence := k.Fence()
			require.NoError(t, k.Release(bg))
			k = gets(t, done).k
			require.Greater(t, k.Fence(), fence)
			tokens[k.Token()] = true
			require.Len(t, tokens, i+2)
		}
	})
}

// docs/dev/hazards.md H96: late or duplicated commands of the former holder change nothing of the
// next holder's lock.
func TestLateCommandsOfTheFormerHolderDoNothingToTheNext(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, nodes []*fakeNode, l *Locker) {
		k := take(t, l, "a", time.Minute)
		var late []func()
		for _, n := range nodes {
			late = append(late, silent(n, command.Extend))
		}
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(bg, time.Hour) }()
		synctest.Wait()
		done := waitingFor(bg, l, "a")
		require.NoError(t, k.Release(bg))
		next := gets(t, done).k
		require.Error(t, <-extended)
		for i, n := range nodes {
			late[i]()
			for _, c := range n.commands(command.Release) { // duplicated in transit
				n.execute(c)
			}
			n.mu.Lock()
			require.Equal(t, next.Token(), n.held["a"])
			n.mu.Unlock()
		}
		require.NoError(t, next.Check(bg))
	})
}

// A waiter is cancelled while the lock is being handed to it. The attempt is undone, and the waiter
// after it, in this process or another, gets the lock at once.
func TestAWaiterThatIsCancelledWhenTheLockIsHandedToItPassesItOn(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{true, false} {
		t.Run(fmt.Sprint("next elsewhere: ", elsewhere), func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				fl.lateAt(0) // the others are waited for
				a, b := fl.process().locker(), fl.process().locker(longBackoff)
				k := take(fl.t, a, "a", time.Hour)
				ctx, cancel := context.WithCancelCause(bg)
				first := waitingFor(ctx, a, "a")
				if !elsewhere {
					b = a
				}
				next := waitingFor(bg, b, "a")
				onRelease(fl.masters[1], func() { cancel(errStop) })
				fl.masters[1].SetDelay(time.Millisecond) // the attempt is not won before
				fl.masters[2].SetDelay(time.Millisecond)
				released := time.Now()
				require.NoError(fl.t, k.Release(bg))
				require.ErrorIs(fl.t, (<-first).err, errStop)
				require.LessOrEqual(fl.t, gets(fl.t, next).at.Sub(released), 10*time.Millisecond)
			})
		})
	}
}

// The same for an end at any instant: here at each reading of the clock while the release is being
// prepared.
func TestACancellationAtAnyInstantOfAHandOverLeavesNothing(t *testing.T) {
	t.Parallel()
	for n := range int64(7) {
		for _, end := range []string{"cancelled", "closed"} {
			synctest.Test(t, func(t *testing.T) {
				c := &gatedClock{Clock: clock.Runtime()}
				nodes, l := fakes(t, 3, WithClock(c))
				k := take(t, l, "a", time.Minute)
				ctx, cancel := context.WithCancelCause(bg)
				first := waitingFor(ctx, l, "a")
				next := waitingFor(bg, l, "a")
				c.gate(n + 1)
				released := make(chan error, 1)
				go func() { released <- k.Release(bg) }()
				synctest.Wait()
				closed := make(chan error, 1)
				if end == "closed" {
					go func() { closed <- l.Close(bg) }()
				} else {
					cancel(errStop)
				}
				synctest.Wait()
				close(c.open)
				require.NoError(t, <-released)
				for _, done := range []<-chan won{first, next} {
					w := <-done
					if w.err == nil {
						require.NoError(t, w.k.Release(bg))
					} else {
						require.True(t, errors.Is(w.err, errStop) || errors.Is(w.err, ErrClosed))
					}
				}
				synctest.Wait()
				for _, node := range nodes {
					require.Empty(t, node.held)
				}
				quiet(t, l)
				require.Zero(t, booked(l))
				cancel(nil)
			})
		}
	}
}

// The release in front of a handoff announces nothing. If the attempt loses its vote, its undo does.
func TestTheUndoOfAHandoffThatLostItsVoteIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
		lk, err := l.Acquire(bg, "a", 10*time.Second)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(bg)
		done := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, "a", 10*time.Second)
			done <- err
		}()
		synctest.Wait()
		for _, n := range nodes[1:] {
			n.script = func(_ *fakeNode, c *command.Command) bool {
				if c.Op == command.Acquire && c.MarkSent() {
					c.Answer(command.Reply{Outcome: command.Refused})
					return true
				}
				return false
			}
		}
		require.NoError(t, lk.Release(bg))
		synctest.Wait()
		all := nodes[0].commands(command.Release)
		require.GreaterOrEqual(t, len(all), 2)
		require.NotEqual(t, all[0].Token(), all[len(all)-1].Token())
		require.True(t, all[1].ReportWaiters)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NoError(t, l.Close(bg))
	})
}

// A node that is down does not take the next acquire, but the release. That is announced there, because the
// next holder may have no vote of any node.
func TestAReleaseWhoseNextHolderIsRefusedIsAnnounced(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2)
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		done := wants(bg, l, "a")
		synctest.Wait()
		fl.masters[2].Stop()
		pass(time.Second) // a dial has failed
		require.NoError(t, k.Release(bg))
		next := gets(t, done).k
		require.NoError(t, fl.masters[2].Restart(true))
		pass(10 * time.Second)
		require.Equal(t, []int{0, 0, 1}, []int{announced(fl.masters[0]), announced(fl.masters[1]), announced(fl.masters[2])})
		require.NoError(t, next.Release(bg))
		fl.releasedEverywhere("a")
	})
}

// The release that such a node gets has nothing to undo if its server executed no acquire of the lock. The
// node would otherwise send it again until the TTL is over, and Close would wait for it.
func TestAReleaseWhoseNextHolderIsRefusedIsSentOnceIfThereIsNothingToUndo(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2)
		l := fl.locker()
		for _, c := range []string{"SET", "EVALSHA", "EVAL", "INFO"} {
			fl.masters[2].FailWith(c, scriptRuns)
		}
		k := take(t, l, "a", time.Minute)
		done := wants(bg, l, "a")
		pass(3 * time.Second) // a check has failed
		require.NoError(t, k.Release(bg))
		fl.answered()
		require.Zero(t, statsOf(l.nodes[2]).ParkedUndos)
		require.NoError(t, gets(t, done).k.Release(bg))
	})
}
