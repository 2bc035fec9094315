package redlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
)

// begunClose starts a Close and returns the channel of its result.
func begunClose(ctx context.Context, l *Locker) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Close(ctx) }()
	synctest.Wait()
	return done
}

func TestCloseWaitsForTheHoldersWhoseLocksAreExtendedMeanwhile(t *testing.T) {
	late.LeaveOut(t, "it measures how long the slowest node takes")
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 3*time.Second, WithAutoExtend())
		s := shared(t, k)
		done := begunClose(bg, l)
		pass(time.Minute)
		require.Empty(t, done)
		for _, h := range []*Lock{k, s} {
			require.NoError(t, h.Context().Err())
			require.Greater(t, h.Remaining(), time.Duration(0))
		}
		require.Greater(t, k.Remaining(), time.Second, "auto-extension goes on that long")
		require.NoError(t, k.Check(bg))
		fl.masters[0].SetDelay(200 * time.Millisecond)
		began := fl.clock.Now()
		require.NoError(t, k.Release(bg))
		require.NoError(t, <-done)
		require.Equal(t, 200*time.Millisecond, fl.clock.Now().Sub(began), "the slowest node's undo")
		require.Zero(t, fl.keys("a"))
	})
}

func TestCloseRefusesNewAcquisitionsAndEndsThoseThatWait(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		theirs := take(t, fl.locker(), "b", time.Minute)
		waiting := make(chan error, 5)
		for _, name := range []string{"a", "b", "b"} { // it waits for a holder here, for one elsewhere, in the local queue
			go func() {
				_, err := l.Acquire(bg, name, time.Second)
				waiting <- err
			}()
		}
		go func() { waiting <- l.Do(bg, "a", time.Second, nil) }()
		go func() { waiting <- l.Lead(bg, "b", time.Second, nil) }()
		pass(3 * time.Second)
		require.Empty(t, waiting)
		done := begunClose(bg, l)
		for range cap(waiting) {
			err := <-waiting
			require.ErrorIs(t, err, ErrClosed)
			require.Regexp(t, `^redlock: locker closed: "[ab]"$`, err.Error())
		}
		for _, err := range []error{
			second(l.TryAcquire(bg, "c", time.Second)),
			second(l.AcquireAll(bg, []string{"c", "d"}, time.Second)),
			second(l.Acquire(context.WithoutCancel(k.Context()), "a", time.Second, WithShared())),
			second(l.Resume(bg, Claim{Names: []string{"c"}, Token: command.NewToken(""), TTL: time.Second})),
			second(l.Inspect(bg, "a")),
			l.Healthy(bg),
			l.Do(bg, "c", time.Second, func(context.Context, *Lock) error { panic("entered") }),
		} {
			require.ErrorIs(t, err, ErrClosed)
		}
		require.EqualError(t, second(l.Acquire(bg, "c", time.Second)), `redlock: locker closed: "c"`)
		claim := Claim{Names: []string{"c"}, Token: command.NewToken(""), TTL: time.Second}
		require.EqualError(t, second(l.Resume(bg, claim)), `redlock: locker closed: "c"`)
		require.Zero(t, fl.keys("c"))
		require.NoError(t, k.Release(bg))
		require.NoError(t, <-done)
		require.NoError(t, theirs.Release(bg))
	})
}

func second[T any](_ T, err error) error { return err }

// Close waits until an attempt under way is undone.
func TestCloseWaitsForAttemptsUnderWay(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		for _, m := range fl.masters {
			m.SetDelay(480 * time.Millisecond)
		}
		got := make(chan error, 1)
		go func() { got <- second(l.TryAcquire(bg, "a", time.Minute)) }()
		fl.answered()
		require.Equal(t, 3, fl.keys("a"))
		require.NoError(t, l.Close(bg))
		require.ErrorIs(t, <-got, ErrClosed)
		require.Zero(t, fl.keys("a"))
	})
}

func TestCloseNamesWhatIsStillHeldAndLeavesItToItsTTL(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.AcquireAll(context.Background(), []string{"b", "a"}, 30*time.Second, WithAutoExtend())
		require.NoError(t, err)
		c := take(t, l, "c", 10*time.Second)
		enough := errors.New("the pod is going down")
		ctx, cancel := context.WithTimeoutCause(context.Background(), 25*time.Second, enough)
		defer cancel()
		require.NoError(t, take(t, l, "d", 10*time.Second).Release(ctx))
		err = l.Close(ctx)
		require.ErrorIs(t, err, enough)
		require.ErrorContains(t, err, `locks still held until their TTL: ["a" "b"]`, "c has run out, d was released")
		require.ErrorIs(t, c.Release(ctx), ErrLost)
		left, sent := k.Remaining(), fl.orders(command.Extend)
		require.Greater(t, left, 19*time.Second)
		pass(left - 1)
		require.Equal(t, 3, fl.keys("a"), "not taken away from under the work")
		require.Equal(t, sent, fl.orders(command.Extend))
		require.Equal(t, time.Duration(1), k.Remaining())
		require.ErrorIs(t, k.Extend(context.Background(), time.Second), ErrClosed)
		require.ErrorIs(t, k.Release(context.Background()), pool.ErrClosed, "the nodes have ended with the Locker")
	})
}

func TestCloseMayBeCalledTwiceAndAtTheSameTime(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		first, other := begunClose(bg, l), begunClose(bg, l)
		pass(time.Second)
		require.Empty(t, first)
		require.NoError(t, k.Release(bg))
		require.NoError(t, <-first)
		require.NoError(t, <-other)
		require.NoError(t, l.Close(bg))
	})
}

// Otherwise the call that goes on waiting would return nil when the keys have expired.
func TestACloseThatGivesUpEndsTheOtherCallsWithItsError(t *testing.T) {
	over, cancel := context.WithCancel(bg)
	cancel()
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		take(t, l, "a", time.Minute)
		b := take(t, l, "b", time.Minute)
		fl.masters[1].Freeze()
		fl.masters[2].Freeze()
		require.ErrorIs(t, b.Release(bg), ErrNoQuorum)
		other := begunClose(bg, l)
		err := l.Close(over)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, `locks still held until their TTL: "a"`)
		require.ErrorIs(t, err, ErrKeysLeft)
		require.Zero(t, elapsed(func() { require.Equal(t, err, <-other) }))
		require.Equal(t, err, l.Close(bg))
	})
}

// Close does not wait for what only asks. That ends with the nodes.
func TestAQuestionThatCloseEndsSaysSo(t *testing.T) {
	over, cancel := context.WithCancel(bg)
	cancel()
	var claimed Claim
	for name, ask := range map[string]func(*Locker, *Lock) error{
		"Healthy": func(l *Locker, _ *Lock) error { return l.Healthy(bg) },
		"Inspect": func(l *Locker, _ *Lock) error { return second(l.Inspect(bg, "a")) },
		"Check":   func(_ *Locker, k *Lock) error { return k.Check(bg) },
		"Extend":  func(_ *Locker, k *Lock) error { return k.Extend(bg, time.Hour) },
		"Resume":  func(l *Locker, _ *Lock) error { return second(l.Resume(bg, claimed)) },
	} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			k := take(fl.t, l, "a", time.Minute)
			detached, err := take(fl.t, fl.locker(), "b", time.Minute).Detach()
			require.NoError(fl.t, err)
			claimed = detached
			fl.answered()
			fl.each(func(m *fakeredis.Master) { m.Freeze() })
			asked := make(chan error, 1)
			go func() { asked <- ask(l, k) }()
			synctest.Wait()
			require.ErrorContains(fl.t, l.Close(over), "still held")
			err = <-asked
			require.ErrorIs(fl.t, err, ErrClosed, name)
			require.NotErrorIs(fl.t, err, ErrNoQuorum, name)
		})
	}
}

// slowToClose is a node whose goroutines take a second to end.
type slowToClose struct{ *fakeNode }

func (n slowToClose) Close() error {
	time.Sleep(time.Second) // virtual
	return n.fakeNode.Close()
}

// A goroutine that waits for a mutex, or in sync.Once, would stop the time of the bubble.
func TestCallsOfCloseInABubbleWaitForTheOneThatClosesTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newOver([]command.Voter{slowToClose{newFake("n1")}})
		require.NoError(t, err)
		first, other := begunClose(bg, l), begunClose(bg, l)
		require.Equal(t, time.Second, elapsed(func() {
			require.NoError(t, <-first)
			require.NoError(t, <-other)
		}))
	})
}

// Two calls of Close: one ends and counts the locks, and the other one gives up the undo of one meanwhile.
func TestALockThatIsGivenUpWhileCloseEndsIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l, _, c := gated(t)
		k := take(t, l, "a", time.Minute)
		answerLate := silent(nodes[2], command.Release)
		require.NoError(t, k.Release(bg))
		require.True(t, l.registry.finish())
		c.gate(2) // it has listed the locks, and asks whether this one is held
		left := make(chan error, 1)
		go func() { left <- second((&closing{l: &l.core}).leftovers()) }()
		<-c.reached
		l.registry.giveUp(&k.hold, l.now())
		close(c.open)
		require.ErrorContains(t, <-left, "locks: 1, within ")
		answerLate()
	})
}

// The work is told to stop, and its release is sent before Close returns.
func TestACloseThatIsCutShortCountsEachLockOnce(t *testing.T) {
	over, cancel := context.WithCancel(bg)
	cancel()
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		a := take(t, l, "a", time.Minute)
		did := working(bg, l, "b", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond) // virtual
			return nil
		})
		fl.answered()
		fl.masters[2].Freeze()
		require.NoError(t, a.Release(bg)) // Close waits for the frozen node
		err := l.Close(over)
		require.NoError(t, <-did)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "will expire by TTL: locks: 2, within ")
		require.NotContains(t, err.Error(), "still held")
	})
}

func TestCloseOfAnIdleLockerIsNoErrorThoughItsContextIsDone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		for range 50 { // a select would choose at random
			l, err := newOver([]command.Voter{newFake("n1")}, WithClock(fl.clock))
			require.NoError(t, err)
			require.NoError(t, l.Close(ctx))
		}
	})
}

// The nodes end with the Locker, and so do their pending undos.
func TestACloseThatIsCutShortSaysWhatBecomesOfWhatWasReleased(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is frozen
		l := fl.locker()
		k := takeAtOnce(t, l, "a", time.Minute)
		synctest.Wait()
		fl.masters[2].Freeze()
		require.NoError(t, k.Release(bg))
		ctx, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		err := l.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrKeysLeft)
		require.EqualError(t, err, "redlock: close: context deadline exceeded; redlock: keys of ended locks were not deleted and will expire by TTL: locks: 1, within 59s")
	})
}

func TestCloseWaitsForAFrozenNodesUndoNoLongerThanItsContext(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is frozen
		l := fl.locker()
		k := takeAtOnce(t, l, "a", time.Minute)
		synctest.Wait()
		fl.masters[2].Freeze()
		require.NoError(t, k.Release(bg))
		ctx, cancel := context.WithTimeout(bg, 3*time.Second)
		defer cancel()
		began := fl.clock.Now()
		err := l.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrKeysLeft)
		require.ErrorContains(t, err, "1, within 57s")
		require.Equal(t, 3*time.Second, fl.clock.Now().Sub(began))
		require.Zero(t, elapsed(func() { require.Equal(t, err, l.Close(bg)) }), "nothing is waited for")
	})
}

// The node gives up such an undo when its silent connection or its hanging dial ends, up to 5 s
// after the keys have expired.
func TestCloseWaitsForAnUndoNoLongerThanTheKeysLive(t *testing.T) {
	late.LeaveOut(t, "it measures from a release that two of three nodes answer")
	nothing := func(*fakeredis.Master) {}
	const recovery = 10 * time.Second                                 // a node's hard timeout and dial timeout
	for name, fault := range map[string][2]func(m *fakeredis.Master){ // before the acquire, and after it
		"frozen":                   {nothing, (*fakeredis.Master).Freeze},
		"frozen since the acquire": {(*fakeredis.Master).Freeze, nothing},
		"dead":                     {nothing, (*fakeredis.Master).Stop},
	} {
		for _, ttl := range []time.Duration{time.Second, 6500 * time.Millisecond, 12 * time.Second, time.Hour} {
			for _, early := range []bool{true, false} { // released before Close begins
				inBubbles(t, 3, func(fl *testbed) {
					l := fl.locker()
					fault[0](fl.masters[2])
					k := take(t, l, "a", ttl)
					pass(ttl / 4)
					fault[1](fl.masters[2])
					if early {
						require.NoError(t, k.Release(bg))
					}
					began, done := fl.clock.Now(), begunClose(bg, l)
					if !early {
						require.NoError(t, k.Release(bg))
					}
					err := <-done
					require.Equal(t, min(ttl, recovery), fl.clock.Now().Sub(began), "%s, released before Close: %v", name, early)
					if ttl > recovery {
						require.ErrorIs(t, err, ErrKeysLeft)
					} else {
						require.NoError(t, err)
					}
					synctest.Wait() // the last answer ends Close before it clears the timer
					require.Zero(t, l.timers.Len())
					fl.masters[2].Unfreeze()
					if !fl.masters[2].Up() {
						require.NoError(t, fl.masters[2].Restart(true))
					}
					pass(max(ttl, 10*time.Second))
					require.Zero(t, fl.keys("a"), "what was executed late is undone, or ends by its TTL")
				})
			}
		}
	}
}

// The node timeout decides the release after Close has begun to wait.
func TestCloseWaitsForAnUndoThatNoQuorumAnswersNoLongerThanTheKeysLive(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", 8*time.Second)
		fl.masters[1].Freeze()
		fl.masters[2].Freeze()
		began, released := fl.clock.Now(), make(chan error, 1)
		go func() { released <- k.Release(bg) }()
		synctest.Wait()
		require.NoError(t, l.Close(bg))
		require.Equal(t, 8*time.Second, fl.clock.Now().Sub(began))
		require.ErrorIs(t, <-released, ErrNoQuorum)
	})
}

// Until a quorum has confirmed the release, its keys may keep the name unavailable.
func TestCloseWaitsForAReleaseThatNoQuorumConfirmedUntilItsKeysExpire(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		fl.masters[1].Freeze()
		fl.masters[2].Freeze()
		require.ErrorIs(t, k.Release(bg), ErrNoQuorum)
		done := begunClose(bg, l)
		pass(30 * time.Second)
		require.Empty(t, done)
		fl.masters[1].Unfreeze()
		fl.masters[2].Unfreeze()
		require.NoError(t, <-done)
		require.Zero(t, fl.keys("a"))
	})
}

// A quorum may confirm after the round's decision, and after the time that nodes have to recover.
func TestCloseEndsOnceAQuorumHasConfirmedLate(t *testing.T) {
	for _, after := range []time.Duration{200 * time.Millisecond, 20 * time.Second} {
		inBubbles(t, 3, func(fl *testbed) {
			l := fl.locker()
			k := take(t, l, "a", time.Hour)
			fl.masters[1].Freeze()
			fl.masters[2].Freeze()
			began := fl.clock.Now()
			require.ErrorIs(t, k.Release(bg), ErrNoQuorum)
			done := begunClose(bg, l)
			pass(after)
			require.Empty(t, done)
			fl.masters[1].Unfreeze()
			require.ErrorIs(t, <-done, ErrKeysLeft)
			require.LessOrEqual(t, fl.clock.Now().Sub(began), max(10*time.Second, after+7*time.Second), "and not an hour")
			synctest.Wait() // the last answer ends Close before it clears the timer
			require.Zero(t, l.timers.Len())
			fl.masters[2].Unfreeze()
		})
	}
}

// The lock belongs to another handle until the Resume has ended, so Close reports no keys left.
func TestCloseReportsNothingOfAResumeThatIsNotOver(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		claim, err := take(t, fl.locker(), "a", time.Minute).Detach()
		require.NoError(t, err)
		l := fl.locker()
		for _, m := range fl.masters {
			m.SetDelay(50 * time.Millisecond)
		}
		resumed := make(chan error, 1)
		go func() { resumed <- second(l.Resume(bg, claim)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
		defer cancel()
		err = l.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrKeysLeft)
		require.ErrorIs(t, <-resumed, ErrClosed)
	})
}

// An undo that was answered before Close leaves no timer.
func TestCloseLeavesNoTimerOfAnUndoThatWasAnswered(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		fl.masters[2].SetDelay(200 * time.Millisecond)
		require.NoError(t, k.Release(bg))
		require.NoError(t, l.Close(bg))
		synctest.Wait() // the last answer ends Close before it clears the timer
		require.Zero(t, l.timers.Len())
	})
}

func TestALockerClosesItsNodes(t *testing.T) {
	m, err := fakeredis.Start("m") // sockets: not in a bubble
	require.NoError(t, err)
	defer m.Close()
	n, err := pool.Open(pool.Config{Address: m.Addr()})
	require.NoError(t, err)
	byNew, err := New([]*pool.Node{n}, patient)
	require.NoError(t, err)
	byOpen, err := Open([]string{m.URL()}, patient)
	require.NoError(t, err)
	for _, l := range []*Locker{byNew, byOpen} {
		require.NoError(t, l.Healthy(bg))
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
		require.NoError(t, l.Close(bg))
		require.NoError(t, l.Close(bg))
		require.ErrorIs(t, l.nodes[0].WhyNotVoting(), pool.ErrClosed)
	}
	require.NoError(t, n.Close(), "again")
}

// A failed attempt holds nothing. Its key on one node does not keep others from the lock, so Close
// waits no longer than a node takes to recover.
func TestCloseWaitsForTheUndoOfAnAttemptNoLongerThanANodeTakesToRecover(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		held := take(t, fl.locker(), "a", time.Hour)
		l := fl.locker()
		fl.masters[2].Freeze()
		fl.each(func(m *fakeredis.Master) { m.SetDelay(time.Millisecond) }) // the attempt is sent to the frozen node before the others answer
		ctx, cancel := context.WithTimeout(bg, 3*time.Second)
		defer cancel()
		_, err := l.Acquire(ctx, "a", time.Hour)
		require.ErrorIs(t, err, ErrHeld)
		fl.answered()
		require.NotZero(t, booked(l))
		require.LessOrEqual(t, elapsed(func() { err = l.Close(bg) }), 10*time.Second)
		require.ErrorIs(t, err, ErrKeysLeft)
		require.Zero(t, booked(l))
		fl.masters[2].Unfreeze()
		require.NoError(t, held.Release(bg))
	})
}

func TestHowLongCloseWaitsIsAMatterOfTheNodes(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		fl.lateAt(1) // it is frozen
		var nodes []*pool.Node
		for _, m := range fl.masters {
			nodes = append(nodes, fl.node(m, pool.Config{HardTimeout: 2 * time.Second, DialTimeout: time.Second}))
		}
		l, err := New(nodes, WithClock(fl.clock))
		require.NoError(t, err)
		defer fl.close(l)
		synctest.Wait()
		k := take(t, l, "a", time.Minute)
		fl.masters[1].Freeze()
		require.NoError(t, k.Release(bg))
		require.Equal(t, 3*time.Second, elapsed(func() { err = l.Close(bg) }))
		require.ErrorIs(t, err, ErrKeysLeft)
	})
}

// This is the case of a signal that ends the context which main gave to Close.
func TestACloseWhoseContextIsDoneWaitsForUndosAsReleaseDoes(t *testing.T) {
	late.LeaveOut(t, "it measures how long the slowest node takes")
	over, cancel := context.WithCancel(bg)
	cancel()
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		fl.masters[2].SetDelay(200 * time.Millisecond)
		require.NoError(t, k.Release(bg))
		require.Equal(t, 200*time.Millisecond, elapsed(func() { require.NoError(t, l.Close(over)) }))
		require.Zero(t, fl.keys("a"))
	})
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		other := take(t, l, "b", time.Minute)
		fl.masters[2].Freeze()
		require.NoError(t, k.Release(bg))
		var err error
		require.Equal(t, 500*time.Millisecond, elapsed(func() { err = l.Close(over) }), "the node timeout")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrKeysLeft)
		require.ErrorContains(t, err, `locks still held until their TTL: "b"`)
		require.ErrorIs(t, other.Release(bg), pool.ErrClosed)
	})
}

// After Close nobody would end a lock that is still extended.
func TestCloseThatGivesUpStopsAllExtensions(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		names := []string{"a", "b", "c"}
		for _, name := range names {
			_, err := l.Acquire(bg, name, 3*time.Second, WithAutoExtend())
			require.NoError(t, err)
		}
		ctx, cancel := context.WithCancel(bg)
		cancel()
		require.Error(t, l.Close(ctx))
		pass(10 * time.Second)
		for _, name := range names {
			require.Zero(t, fl.keys(name), name)
		}
	})
}

// Close gives up while the release of a lock is undecided.
func TestCloseReportsKeysWhoseReleaseIsUndecided(t *testing.T) {
	inBubbles(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.Acquire(bg, "a", 10*time.Second, WithAsyncRelease())
		require.NoError(t, err)
		fl.each(func(m *fakeredis.Master) { m.Freeze() })
		require.NoError(t, k.Release(bg))
		ctx, cancel := context.WithTimeout(bg, time.Millisecond)
		defer cancel()
		err = l.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrKeysLeft)
		fl.each(func(m *fakeredis.Master) { m.Unfreeze() })
	})
}

// Close may give up an undo while the last answer comes.
func TestAnAnsweredUndoLeavesNoKeys(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		require.NoError(t, k.Release(bg))
		fl.answered()
		l.registry.giveUp(&k.hold, l.now())
		require.NoError(t, second((&closing{l: &l.core}).leftovers()))
	})
}

// The vote is won after the caller has given up, and the lock, whose timer ends the vote, is never held.
func TestCloseLeavesNoTimerOfAnAcquisitionThatWasGivenUp(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.SetDelay(20 * time.Millisecond) })
		ctx, cancel := context.WithTimeout(bg, 10*time.Millisecond)
		defer cancel()
		_, err := l.TryAcquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, l.Close(bg))
		synctest.Wait()
		require.Zero(t, l.timers.Len())
	})
}
