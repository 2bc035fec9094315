package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/clock/clocktest"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// These tests place events between two steps of a function, at one instant.

// endings are the ways in which a lock can end while a goroutine is about to submit a command for
// it.
var endings = map[string]func(skewed *clocktest.Skewed, k *Lock){
	"its end, to the instant": func(skewed *clocktest.Skewed, k *Lock) { skewed.Jump(k.Remaining()) },
	"a quorum disowns it":     func(_ *clocktest.Skewed, k *Lock) { disown(k) },
	"a release": func(_ *clocktest.Skewed, k *Lock) {
		ended := k.ctx.Done() // Context would apply what is due
		go func() { _ = k.Release(bg) }()
		<-ended
	},
}

// gated makes a Locker over three fakes. Its clock can stop, jump, and block a goroutine that reads
// it.
func gated(t *testing.T, opts ...Option) (nodes []*fakeNode, l *Locker, skewed *clocktest.Skewed, c *gatedClock) {
	t.Helper()
	skewed = clocktest.NewSkewed(clock.Runtime())
	c = &gatedClock{Clock: skewed}
	nodes, l = fakes(t, 3, append(opts, WithClock(c))...)
	return nodes, l, skewed, c
}

// docs/dev/hazards.md H12: after the first check that the lock is held there is a second one, under
// the mutex that orders the commands.
func TestNoExtensionIsSubmittedOfALockThatHasJustEnded(t *testing.T) {
	for what, end := range endings {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, l, skewed, _ := gated(t)
				k := take(t, l, "a", 10*time.Second)
				k.Context()
				skewed.Stall() // no timer ends the lock
				end(skewed, k)
				require.Nil(t, extendUnchecked(k, 20*time.Second))
				skewed.Resume()
				synctest.Wait()
				for _, n := range nodes {
					require.Empty(t, n.commands(command.Extend))
				}
			})
		})
	}
}

func TestNoRepairIsSubmittedOfALockThatHasJustEnded(t *testing.T) {
	for what, end := range endings {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, l, skewed, _ := gated(t, WithRestartGuard(guardTTL), WithRepair())
				k := take(t, l, "a", 4*time.Second)
				k.Context()
				nodes[2].forgetKey("a")
				skewed.Stall()
				x := extendUnnoticed(t, k)
				require.True(t, x.effective)
				end(skewed, k)
				k.mu.Lock()
				unsent := repairLocked(&k.hold)
				k.mu.Unlock()
				unsent.Settle()
				skewed.Resume()
				synctest.Wait()
				require.Empty(t, nodes[2].commands(command.Repair))
			})
		})
	}
}

// disown marks a lock as lost, as an extension does that a quorum refuses.
func disown(k *Lock) {
	(&extension{hold: &k.hold, round: k.l.group.New(&noEvents, nil, k.holder.Names)}).markLost()
}

// extendUnchecked extends a lock as Extend does after its first check.
func extendUnchecked(k *Lock, ttl time.Duration) *extension {
	k.mu.Lock()
	x, unsent := extendLocked(&k.hold, ttl, false)
	k.mu.Unlock()
	unsent.Settle()
	return x
}

// extendUnnoticed extends a lock up to the point at which the repair is recorded.
func extendUnnoticed(t *testing.T, k *Lock) *extension {
	t.Helper()
	x := extendUnchecked(k, k.opts.ttl)
	require.NotNil(t, x)
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	require.Equal(t, lease.Repair, k.lease.Due(k.l.now()))
	return x
}

func (n *fakeNode) forgetKey(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.held, key)
}

// A lock that is not extended any more is not repaired either, and its timer does not fire for a
// repair.
func TestNoRepairIsSubmittedOfALockThatNothingExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l, skewed, _ := gated(t, WithRestartGuard(guardTTL), WithRepair())
		k := take(t, l, "a", 4*time.Second)
		nodes[2].forgetKey("a")
		skewed.Stall()
		extendUnnoticed(t, k)
		k.mu.Lock()
		k.lease.StopExtending() // as Close does
		k.scheduleLocked()
		k.mu.Unlock()
		skewed.Resume()
		pass(time.Second)
		require.Empty(t, nodes[2].commands(command.Repair))
		require.Greater(t, k.Remaining(), time.Duration(0))
	})
}

// The timer sends a repair at once, and not with the next extension.
func TestWhatAnAutomaticExtensionFindsGoneIsRepairedAtOnce(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l := fl.guarded(WithRepair())
		k := takeAllAtOnce(t, l, names, 9*time.Second, WithAutoExtend())
		pass(time.Second) // after the timer by which a lock drops its acquisition
		fl.masters[2].Del(names[len(names)-1])
		pass(k.lease.Terms.Interval - time.Second)
		fl.answered()
		require.Equal(t, 3, fl.sees("extend"))
		require.Equal(t, 1, repairs(fl.masters[2]))
		require.NoError(t, k.Release(bg))
	})
}

// A repair waits for all answers to the extension, because a node that answers after the decision
// may also lack the key.
func TestARepairFollowsTheLastAnswerAndComesOnce(t *testing.T) {
	inBubble(t, 5, func(fl *testbed) {
		fl.lateAt(0) // it answers last
		l := fl.guarded(WithRepair())
		k := take(t, l, "a", 8*time.Second)
		fl.masters[4].Del("a")
		for i, m := range fl.masters {
			m.SetDelay(time.Duration(5-i) * 20 * time.Millisecond) // the node that lacks the key answers first
		}
		require.NoError(t, k.Extend(bg, 8*time.Second))
		pass(10 * time.Millisecond)
		require.Zero(t, repairs(fl.masters[4]), "one has not answered")
		fl.answered()
		pass(200 * time.Millisecond)
		require.Equal(t, 1, repairs(fl.masters[4]))
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		require.Zero(t, fl.keys("a"))
	})
}

// A lock that has all its keys is not repaired. Its undo may state that only its acquire has
// written.
func TestAHealthyExtensionBooksNoRepair(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l := fl.guarded(WithRepair())
		k := takeAll(t, l, names, 4*time.Second)
		require.NoError(t, k.Extend(bg, 4*time.Second))
		pass(time.Second)
		require.Zero(t, k.keys.repaired)
		require.Empty(t, k.extending.rounds)
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/rules.md rule 5: a node that refused the acquire and was repaired is undone, even if
// another node was repaired since.
func TestANodeThatWasRepairedIsUndoneAlsoAfterAnotherWas(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		fl.lateAt(2) // it refuses
		l := fl.guarded(WithRepair())
		fl.masters[2].Set("a", "somebody", 500*time.Millisecond)
		k := takeAll(t, l, names, 8*time.Second)
		pass(time.Second)
		require.NoError(t, k.Extend(bg, 8*time.Second))
		fl.answered()
		fl.masters[1].Del("a")
		require.NoError(t, k.Extend(bg, 8*time.Second))
		fl.answered()
		require.Equal(t, 1, repairs(fl.masters[1]))
		require.Equal(t, 1, repairs(fl.masters[2]))
		require.Empty(t, k.extending.rounds, "nothing is kept of a repair that was answered")
		require.NoError(t, k.Release(bg))
		fl.releasedEverywhere("a")
	})
}

// extensions collects the events of extensions.
func extensions(list *[]RoundEvent) Option {
	return WithTrace(&Trace{Extended: func(e RoundEvent) { *list = append(*list, e) }})
}

// A hook that receives the event of an extension also learns that it found the lock gone.
func TestAnExtensionThatAQuorumRefusesIsReportedAsLost(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		var reported []RoundEvent
		k := takeAll(t, fl.locker(extensions(&reported)), names, 10*time.Second)
		for _, m := range fl.masters[:2] {
			m.Del(names[0])
		}
		require.ErrorIs(t, k.Extend(bg, 10*time.Second), ErrLost)
		fl.answered()
		require.Len(t, reported, 1)
		require.ErrorIs(t, reported[0].Err, ErrLost)
		require.LessOrEqual(t, reported[0].Validity, time.Duration(0))
	})
}

// docs/dev/hazards.md H114: also if the replies arrive at the very instant of the end, before any
// timer has run.
func TestRepliesAtTheInstantOfTheEndExtendNothing(t *testing.T) {
	for what, early := range map[string]time.Duration{"at the end": 0, "just before": 1} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []RoundEvent
				nodes, l, skewed, _ := gated(t, extensions(&reported))
				k := take(t, l, "a", 10*time.Second)
				var answerLate []func()
				for _, n := range nodes {
					answerLate = append(answerLate, silent(n, command.Extend))
				}
				extended := make(chan error, 1)
				go func() { extended <- k.Extend(bg, 20*time.Second) }()
				synctest.Wait()
				skewed.Stall()
				skewed.Jump(k.Remaining() - early)
				for _, f := range answerLate {
					f()
				}
				err := <-extended
				synctest.Wait()
				require.Len(t, reported, 1)
				if early > 0 {
					require.NoError(t, err)
					require.NoError(t, reported[0].Err)
					require.Greater(t, k.Remaining(), time.Second)
				} else {
					require.ErrorIs(t, err, ErrLost)
					require.ErrorIs(t, reported[0].Err, ErrLost)
					require.LessOrEqual(t, k.Remaining(), time.Duration(0))
				}
				skewed.Resume()
			})
		})
	}
}

// A caller's context ends when the extension is decided already. The caller receives the decision.
func TestACallerThatGivesUpReceivesAnExtensionThatWasDecided(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		k := takeAll(t, fl.locker(), names, 10*time.Second)
		x := extendUnchecked(k, 20*time.Second)
		require.NotNil(t, x)
		fl.answered()
		ctx, cancel := context.WithCancel(bg)
		cancel()
		for range 100 { // select chooses among ready cases at random
			require.NoError(t, x.result(ctx))
		}
		require.ErrorIs(t, k.Extend(ctx, 20*time.Second), context.Canceled)
		require.ErrorIs(t, k.Extend(ctx, time.Microsecond), ErrInvalid)
		fl.answered()
		require.Equal(t, 3, fl.orders(command.Extend), "a context that is done sends nothing")
		require.NoError(t, k.Release(bg))
		require.ErrorIs(t, k.Extend(ctx, 20*time.Second), context.Canceled)
	})
}

// Keys that a release could not delete expire with the longest TTL that any command gave them.
func TestWhatIsLeftExpiresWithTheLongestTTL(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 20 * time.Second} {
		forOneNameAndTwo(t, func(fl *testbed, names []string) {
			k := takeAll(t, fl.locker(), names, 10*time.Second)
			require.NoError(t, k.Extend(bg, ttl))
			fl.each(down)
			err := k.Release(bg)
			var q *QuorumError
			require.ErrorAs(t, err, &q)
			require.Equal(t, max(ttl, 10*time.Second), q.Expires)
		})
	}
}

// The lock was lost at the refusal that completed a quorum. Later refusals change nothing.
func TestALockIsLostWhenTheFirstQuorumDisownsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l, skewed, _ := gated(t)
		k := take(t, l, "a", 10*time.Second)
		var answerLate []func()
		for _, n := range nodes {
			answerLate = append(answerLate, silent(n, command.Extend))
			n.forgetKey("a")
		}
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(bg, 20*time.Second) }()
		synctest.Wait()
		skewed.Stall() // the lock's timer does not fire
		answerLate[0]()
		answerLate[1]()
		k.mu.Lock()
		lost := !k.lease.Valid(l.now())
		k.mu.Unlock()
		require.True(t, lost)
		skewed.Jump(100 * time.Millisecond)
		answerLate[2]()
		var e *LostError
		require.ErrorAs(t, k.Release(bg), &e)
		require.Equal(t, 100*time.Millisecond, e.For)
		require.ErrorIs(t, <-extended, ErrLost)
		skewed.Resume()
	})
}

// Refusals after the end do not move it, whether or not a timer has noticed the end.
func TestRefusalsAfterTheEndDoNotMoveIt(t *testing.T) {
	for what, late := range map[string]time.Duration{"no timer has run": 20 * time.Millisecond, "a timer ended it": time.Second} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes, l, skewed, _ := gated(t)
				k := take(t, l, "a", 10*time.Second)
				var answerLate []func()
				for _, n := range nodes {
					answerLate = append(answerLate, silent(n, command.Extend))
					n.forgetKey("a")
				}
				skewed.Jump(k.Remaining() - 10*time.Millisecond)
				extended := make(chan error, 1)
				go func() { extended <- k.Extend(bg, 20*time.Second) }()
				pass(late)
				for _, f := range answerLate {
					f()
				}
				require.ErrorIs(t, <-extended, ErrLost)
				late -= 10 * time.Millisecond
				require.Equal(t, -late, k.Remaining())
				var e *LostError
				require.ErrorAs(t, k.Release(bg), &e)
				require.Equal(t, late, e.For)
			})
		})
	}
}

// An end that Check has lowered comes when it is due: a timer is set for it.
func TestALoweredEndComesInTime(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		k := takeAll(t, fl.locker(), names, 30*time.Second)
		done := k.Context().Done()
		pass(2 * time.Second) // after the timer by which a lock drops its acquisition
		for _, m := range fl.masters {
			m.Set(names[len(names)-1], k.Token(), 5*time.Second)
		}
		require.NoError(t, k.Check(bg))
		left := k.Remaining()
		require.Less(t, left, 5*time.Second)
		pass(left - 1)
		require.False(t, isClosed(done))
		pass(1)
		require.True(t, isClosed(done))
	})
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Check never raises the end, even if another call has lowered it meanwhile.
func TestAnEndIsNeverRaisedByWhatIsToLowerIt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 10*time.Second)
		left := k.Remaining()
		k.checked(&vote.Round{Start: l.now()}, l.now().Add(left+time.Second))
		require.Equal(t, left, k.Remaining())
		k.checked(&vote.Round{Start: l.now()}, l.now().Add(left-time.Second))
		require.Equal(t, left-time.Second, k.Remaining())
		require.NoError(t, k.Release(bg))
	})
}

// A Check that was sent at the instant at which an extension took effect may lower the end. One
// that was sent earlier may not.
func TestACheckFromBeforeAnExtensionShortensNothing(t *testing.T) {
	for what, since := range map[string]time.Duration{"at the instant": 0, "before": 1} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := take(t, l, "a", 10*time.Second)
				pass(time.Second)
				require.NoError(t, k.Extend(bg, 10*time.Second))
				left := k.Remaining()
				k.checked(&vote.Round{Start: l.now().Add(-since)}, l.now().Add(time.Second))
				require.Equal(t, since > 0, left == k.Remaining())
				require.NoError(t, k.Release(bg))
			})
		})
	}
}

// PTTL cuts off the part of a millisecond. A node whose keys last as long as the validity but for
// that part supports it. A quorum of such nodes is enough, and the third is not waited for.
func TestCheckBelievesAQuorumWhoseKeysLastToTheMillisecond(t *testing.T) {
	for what, ttl := range map[string]time.Duration{"as long": 9999 * time.Millisecond, "for less": 9998 * time.Millisecond} {
		t.Run(what, func(t *testing.T) {
			forOneNameAndTwo(t, func(fl *testbed, names []string) {
				fl.lateAt(2) // it is frozen
				k := takeAllAtOnce(t, fl.locker(WithDrift(0, 0)), names, 10*time.Second)
				for _, m := range fl.masters {
					m.Set(names[len(names)-1], k.Token(), ttl)
				}
				fl.masters[2].Freeze()
				var err error
				took := elapsed(func() { err = k.Check(bg) })
				require.NoError(t, err)
				require.Equal(t, ttl == 9999*time.Millisecond, took == 0)
				fl.masters[2].Unfreeze()
				require.NoError(t, k.Release(bg))
			})
		})
	}
}

// Done is closed soon after a suspend, as Context promises, even if the lock's own timer is far
// ahead.
func TestAContextEndsSoonAfterASuspend(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 10 * time.Second, time.Minute} {
		t.Run(ttl.String(), func(t *testing.T) {
			forOneNameAndTwo(t, func(fl *testbed, names []string) {
				k := takeAll(t, fl.locker(), names, ttl)
				done := k.Context().Done()
				pass(600 * time.Millisecond) // after the timer by which a lock drops its acquisition
				fl.clock.Suspend(ttl)
				pass(timer.Slack)
				require.True(t, isClosed(done))
			})
		})
	}
}
