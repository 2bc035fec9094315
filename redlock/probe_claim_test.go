package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// The maximum hold of a resumed lock counts from before the first command of Resume.
func TestTheMaximumHoldOfAResumedLockCountsFromBeforeItsFirstSubmission(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		claim, err := takeAll(t, l, names, 10*time.Second).Detach()
		require.NoError(t, err)
		p.take(command.Inspect, 10*time.Millisecond)
		began := l.now()
		k, err := l.Resume(bg, claim, WithMaxHold(time.Second))
		require.NoError(t, err)
		require.Equal(t, began.Add(time.Second), l.now().Add(k.Remaining()))
		require.NoError(t, k.Release(bg))
	})
}

// The keys that the release of a resumed lock could not delete expire with the longest of them,
// whichever that is.
func TestWhatIsLeftOfAResumedLockExpiresWithItsLongestKey(t *testing.T) {
	names := []string{"a", "b", "c"}
	for _, long := range names {
		t.Run(long, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				k := takeAll(t, l, names, 5*time.Second)
				claim, err := k.Detach()
				require.NoError(t, err)
				fl.each(func(m *fakeredis.Master) { m.Set(long, claim.Token, 30*time.Second) })
				k, err = l.Resume(bg, claim)
				require.NoError(t, err)
				fl.each(down)
				var q *QuorumError
				require.ErrorAs(t, k.Release(bg), &q)
				require.Equal(t, 30*time.Second, q.Expires)
			})
		})
	}
}

// docs/dev/hazards.md H97: a detached token stays registered until its extensions have been joined.
func TestATokenIsNotResumedBeforeDetachHasJoinedItsExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l, _, _ := gated(t)
		k := take(t, l, "a", 10*time.Second)
		var answerLate []func()
		for _, n := range nodes {
			answerLate = append(answerLate, silent(n, command.Extend))
		}
		go func() { _ = k.Extend(bg, 20*time.Second) }()
		synctest.Wait()
		claim, soon := detachedSoon(k)
		require.False(t, soon())
		require.True(t, isClosed(k.Context().Done()), "the handle has ended")
		_, err := l.Resume(bg, Claim{Names: []string{"a"}, Token: k.Token(), TTL: 10 * time.Second})
		require.ErrorIs(t, err, ErrAlreadyHeld)
		for _, f := range answerLate {
			f()
		}
		require.True(t, soon())
		k, err = l.Resume(bg, <-claim)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// Close reports the locks that it leaves until the last of their keys has expired.
func TestLeftoversAreCountedUntilTheLastOfThemHasExpired(t *testing.T) {
	var l leftover
	l.add(10, 5)
	l.add(8, 5)
	l.add(5, 5) // expires right now
	require.Equal(t, leftover{locks: 2, until: 10}, l)
	synctest.Test(t, func(t *testing.T) {
		for until, left := range map[time.Duration]bool{0: false, time.Millisecond: true} {
			_, locker, _, _ := gated(t)
			locker.registry.left = leftover{locks: 1, until: locker.now().Add(until)}
			require.Equal(t, left, second((&closing{l: &locker.core}).leftovers()) != nil)
		}
	})
}

// A failed extension is soon tried again, also if Check lowers the end meanwhile.
func TestALoweredEndPutsOffNoExtension(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		k := takeAllAtOnce(t, l, names, 30*time.Second, WithAutoExtend())
		heal := failing(fl.masters...)
		pass(k.lease.Terms.Interval)
		require.Len(t, p.of(command.Extend), 3)
		heal()
		for _, m := range fl.masters {
			m.Set(names[len(names)-1], k.Token(), 15*time.Second)
		}
		require.NoError(t, k.Check(bg))
		pass(k.lease.Terms.Interval / 16)
		require.Len(t, p.of(command.Extend), 6)
		require.NoError(t, k.Release(bg))
	})
}

// docs/dev/hazards.md H113: Close overtakes an acquisition. Its keys are undone after all of its
// submissions.
func TestAnAcquireThatCloseOvertakesIsUndone(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		l, p := fl.probed()
		var closed <-chan error
		p.within(command.Acquire, func() {
			if closed == nil {
				done := make(chan error, 1)
				closed = done
				began := make(chan struct{})
				go func() {
					l.registry.close()
					close(began)
					done <- l.Close(bg)
				}()
				<-began
			}
		})
		_, err := l.TryAcquireAll(bg, names, 10*time.Second)
		require.ErrorIs(t, err, ErrClosed)
		require.NoError(t, <-closed)
		for _, name := range names {
			require.Zero(t, fl.keys(name))
		}
		last := p.of(command.Acquire)[2]
		for _, u := range p.of(command.Release) {
			require.GreaterOrEqual(t, u.at, last.at)
		}
	})
}

// docs/dev/hazards.md H52: nodes' clocks are set forward while a lock is held, so its keys expire
// early. Check finds that on a quorum, and the lock ends before another client gets it.
func TestCheckFindsThatNodesClocksWereSetForward(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		fl.lateAt(2) // the others forget it
		l, other := fl.locker(), fl.locker()
		k := takeAll(t, l, names, 10*time.Second)
		ended := k.Context().Done()
		pass(2 * time.Second)
		fl.masters[0].SetClock(6 * time.Second)
		require.NoError(t, k.Check(bg))
		require.Greater(t, k.Remaining(), 7*time.Second-lateness(), "one node is no quorum")
		fl.masters[1].SetClock(5 * time.Second)
		require.NoError(t, k.Check(bg))
		require.Less(t, k.Remaining(), 3*time.Second)
		requireNoOverlap(t, other, names, ended, 3*time.Second+lateness())
	})
}

// docs/dev/hazards.md H54: from the acquisition on all nodes' clocks run fast by the drift
// allowance.
func TestNodesClocksWithinTheDriftAllowanceEndNoLockEarly(t *testing.T) {
	for what, row := range map[string]struct {
		rate float64
		safe bool
	}{"within it": {1.01, true}, "control: beyond it": {1.05, false}} {
		t.Run(what, func(t *testing.T) {
			forOneNameAndTwo(t, func(fl *testbed, names []string) {
				l, other := fl.locker(), fl.locker()
				for _, m := range fl.masters {
					m.SetRate(row.rate)
				}
				k := takeAllAtOnce(t, l, names, 10*time.Second)
				ended := k.Context().Done()
				pass(9 * time.Second)
				if row.safe {
					requireNoOverlap(t, other, names, ended, time.Second)
					return
				}
				pass(800 * time.Millisecond)
				_, err := other.TryAcquireAll(bg, names, 10*time.Second)
				require.NoError(t, err)
				require.False(t, isClosed(ended), "both hold it")
			})
		})
	}
}

// requireNoOverlap tries to acquire names until it succeeds. It must succeed in time, and not
// before the channel ended is closed.
func requireNoOverlap(t *testing.T, l *Locker, names []string, ended <-chan struct{}, within time.Duration) {
	t.Helper()
	for by := l.now().Add(within); l.now().Before(by); pass(10 * time.Millisecond) {
		if k, err := l.TryAcquireAll(bg, names, 10*time.Second); err == nil {
			require.True(t, isClosed(ended), "both hold it")
			require.NoError(t, k.Release(bg))
			return
		}
	}
	require.Fail(t, "no client gets it")
}

// A lock whose validity is over gives no claim, even if no timer has run.
func TestALockThatIsOverByTheClockIsNotDetached(t *testing.T) {
	for what, early := range map[string]time.Duration{"at the end": 0, "just before": 1} {
		t.Run(what, func(t *testing.T) {
			forOneNameAndTwo(t, func(fl *testbed, names []string) {
				k := takeAll(t, fl.locker(), names, 10*time.Second)
				fl.clock.Jump(k.Remaining() - early)
				claim, err := k.Detach()
				if early > 0 {
					require.NoError(t, err)
					require.Equal(t, names, claim.Names)
					return
				}
				require.ErrorIs(t, err, ErrLost)
				require.Empty(t, claim.Token)
			})
		})
	}
}

// The lock was resumed without a fence. A share that requires a fence must be refused, because
// it would have none.
func TestALockThatWasResumedWithoutAFenceHasNoFencedShares(t *testing.T) {
	forOneNameAndTwo(t, func(fl *testbed, names []string) {
		claim, err := takeAll(t, fl.locker(), names, 10*time.Second).Detach()
		require.NoError(t, err)
		l := fl.locker(WithFencing())
		k, err := l.Resume(bg, claim)
		require.NoError(t, err)
		_, err = l.AcquireAll(k.Context(), names, time.Second, WithShared())
		require.ErrorIs(t, err, ErrInvalid)
		require.NoError(t, k.Release(bg))
		k = takeAll(t, l, names, 10*time.Second)
		s := shared(t, k)
		require.Equal(t, k.Fence(), s.Fence())
		require.NoError(t, k.Release(bg))
	})
}
