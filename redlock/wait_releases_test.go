package redlock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// longBackoff keeps contenders from trying by themselves, so that the test sees what wakes them.
var longBackoff = withBackoff(10*time.Second, 10*time.Second)

// docs/dev/rules.md rule 20: a release is noticed within the time of one message. After that it
// costs a waiter the round trip of its acquire.
func TestAReleaseIsHeardOfByOtherProcesses(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3, 5} {
		inBubble(t, nodes, func(fl *testbed) {
			a, b := fl.process().locker(), fl.process().locker(longBackoff)
			k := take(fl.t, a, "a", time.Hour)
			done := waitingFor(bg, b, "a")
			const far = 5 * time.Millisecond
			fl.each(func(m *fakeredis.Master) { m.SetDelay(far) })
			released := time.Now()
			go func() { _ = k.Release(bg) }()
			require.Equal(fl.t, 2*far, gets(fl.t, done).at.Sub(released))
		})
	}
}

// A contender that waits only for messages sends few commands: a poll at most every three quarters
// of a second, and a ping on each node's connection.
func TestWaitingCostsABoundedPollOnly(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		take(t, a, "a", time.Hour)
		for range 1000 {
			wants(bg, b, "a")
		}
		pass(time.Second)
		fl.forget()
		pass(time.Minute)
		// Each of at most 80 polls sends an attempt to three nodes, and queries for the holder
		// those that refused.
		require.LessOrEqual(t, fl.count("SET", "EVALSHA"), 80*6)
		require.LessOrEqual(t, fl.count("PING"), 3*13)
		require.Zero(t, fl.count("SUBSCRIBE"), "one subscription, made before")
		require.Equal(t, 1000, b.waiting.Queued("a"))
	})
}

// waitsSeldom has b wait for a minute for a lock on "a" that another process holds, and then notice
// its release. It makes at most five attempts before it waits, and one poll in three quarters of a
// second from then on.
//
// A poll may cost at most each commands. The number depends on the order of the answers: an acquire
// that was not written when the attempt is lost is not sent. One that was written and not answered
// is undone.
func waitsSeldom(fl *testbed, b *Locker, k *Lock, each int, why string) {
	t := fl.t
	t.Helper()
	fl.forget()
	done := waitingFor(bg, b, "a")
	pass(400 * time.Millisecond)
	require.LessOrEqual(t, fl.count("SET", "EVALSHA"), 5*each, why)
	pass(600 * time.Millisecond)
	fl.forget()
	pass(time.Minute)
	require.LessOrEqual(t, fl.count("SET", "EVALSHA"), 80*each, why)
	released := time.Now()
	require.NoError(t, k.Release(bg))
	require.Less(t, gets(t, done).at.Sub(released), 100*time.Millisecond, "it hears of the release")
}

// While a master is down, the first refusal decides an attempt. If it were taken for a split vote,
// the contender would try again every few milliseconds for as long as the master is down.
func TestWaitingWhileAMasterIsDownCostsABoundedPollOnly(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it stops
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		fl.answered()
		fl.masters[2].Stop()
		waitsSeldom(fl, b, k, 5, "each poll asks two nodes, undoes on the one that was not waited for, and asks both who it is")
	})
}

// The query for the holder does not wait for a frozen master if the others decide.
func TestAFrozenNodeDelaysNoAnnouncementWhileAnotherIsDown(t *testing.T) {
	inBubble(t, 5, func(fl *testbed) {
		fl.lateAt(4) // it is frozen
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		fl.answered()
		fl.masters[3].Stop()
		fl.answered()
		fl.masters[2].SetDelay(5 * time.Millisecond) // two refusals decide
		fl.masters[4].Freeze()
		defer fl.masters[4].Unfreeze()
		done := wants(bg, b, "a")
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, k.Release(bg))
		require.Less(t, gets(t, done).took, 100*time.Millisecond)
	})
}

// docs/dev/rules.md rule 20: a release after the attempt that it refused is not missed, even while
// the subscription is being made. Without the message the waiter would sleep for ten seconds.
func TestAReleaseWhileTheSubscriptionIsMadeIsNotMissed(t *testing.T) {
	t.Parallel()
	for ms := range 60 {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.process().locker(), fl.process().locker(longBackoff)
			if ms < 6 { // before the query for the holder the waiter is not parked yet
				b = fl.process().locker()
			}
			k := take(fl.t, a, "a", time.Hour)
			fl.each(func(m *fakeredis.Master) { m.SetDelay(5 * time.Millisecond) })
			done := wants(bg, b, "a")
			time.Sleep(time.Duration(ms)*time.Millisecond + time.Microsecond)
			require.NoError(fl.t, k.Release(bg))
			require.Less(fl.t, gets(fl.t, done).took, time.Duration(ms+100)*time.Millisecond, "released after %d ms", ms)
		})
	}
}

// A process that contends for a name again is still subscribed from before its attempt. So it needs
// no second attempt to be sure that it missed no release.
func TestAWaiterOfAKnownNameSubscribesBeforeItsAttempt(t *testing.T) {
	late.LeaveOut(t, "it measures how soon a waiter has the name")
	t.Parallel()
	for ms := range 40 {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.process().locker(), fl.process().locker(withBackoff(400*time.Millisecond, 10*time.Second))
			k := take(fl.t, a, "a", time.Hour)
			done := waitingFor(bg, b, "a")
			require.NoError(fl.t, k.Release(bg))
			require.NoError(fl.t, gets(fl.t, done).k.Release(bg))
			k = take(fl.t, a, "a", time.Hour)
			fl.answered()
			fl.each(func(m *fakeredis.Master) { m.SetDelay(5 * time.Millisecond) })
			fl.forget()
			done = wants(bg, b, "a")
			time.Sleep(time.Duration(ms)*time.Millisecond + time.Microsecond)
			require.NoError(fl.t, k.Release(bg))
			require.LessOrEqual(fl.t, gets(fl.t, done).took, time.Duration(ms+60)*time.Millisecond, "released after %d ms", ms)
			require.LessOrEqual(fl.t, fl.count("SET", "EVALSHA"), 12, "the attempt, who holds it, the release, the attempt")
		})
	}
}

// A subscription ends a second after the last waiter has left. This must also hold if the process
// acquires the name again and again without waiting, because each of its releases would cost a
// message.
func TestANameThatIsTakenWithoutWaitingIsNotListenedToForEver(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, done).k.Release(bg))
		for range 30 {
			pass(100 * time.Millisecond)
			require.NoError(t, gets(t, wants(bg, b, "a")).k.Release(bg))
		}
		fl.answered()
		pass(3 * lateness()) // a late master counts a subscription that has ended
		quiet(t, b)
	})
}

// docs/dev/hazards.md H82: a free lock is found within the poll bound, whatever happens to the
// messages.
func TestAReleaseThatIsNotHeardOfIsFoundByPoll(t *testing.T) {
	t.Parallel()
	lose := map[string]func(fl *testbed, m *fakeredis.Master){
		"messages are lost": func(_ *testbed, m *fakeredis.Master) {
			for _, c := range subscribers(m) {
				c.HoldReplies()
			}
		},
		"subscriptions are killed": func(_ *testbed, m *fakeredis.Master) {
			for _, c := range subscribers(m) {
				c.Drop()
			}
		},
		"nobody may publish": func(_ *testbed, m *fakeredis.Master) { m.Deny("PUBLISH") },
		"one node is frozen": func(fl *testbed, m *fakeredis.Master) {
			if m == fl.masters[0] {
				m.Freeze()
			}
		},
		"all nodes are cut off for a time": func(_ *testbed, m *fakeredis.Master) {
			m.Freeze()
			time.AfterFunc(300*time.Millisecond, m.Unfreeze)
		},
		"all nodes restart": func(_ *testbed, m *fakeredis.Master) { _ = m.Restart(true) },
	}
	for what, f := range lose {
		for _, before := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond} {
			t.Run(fmt.Sprint(what, " ", before, " before"), func(t *testing.T) {
				inBubble(t, 3, func(fl *testbed) {
					a, b := fl.process().locker(), fl.process().locker()
					k := take(fl.t, a, "a", time.Hour)
					done := waitingFor(bg, b, "a")
					fl.each(func(m *fakeredis.Master) { f(fl, m) })
					time.Sleep(before)
					released := time.Now()
					_ = k.Release(bg)
					bound := waiting.MaxPollPause + 300*time.Millisecond + 100*time.Millisecond
					require.LessOrEqual(fl.t, gets(fl.t, done).at.Sub(released), bound)
					fl.thaw()
				})
			})
		}
	}
}

// If too few nodes can be subscribed to, the polls of the backoff find a release.
func TestNodesThatCannotBeSubscribedToArePolled(t *testing.T) {
	t.Parallel()
	for denied := range 4 {
		inBubble(t, 3, func(fl *testbed) {
			for _, m := range fl.masters[:denied] {
				m.Deny("SUBSCRIBE")
			}
			a, b := fl.process().locker(), fl.process().locker()
			k := take(fl.t, a, "a", time.Hour)
			done := waitingFor(bg, b, "a")
			released := time.Now()
			require.NoError(fl.t, k.Release(bg))
			late := gets(fl.t, done).at.Sub(released)
			if denied < 2 {
				require.LessOrEqual(fl.t, late, waiting.AnnounceGrace, "%d denied", denied)
			}
			require.LessOrEqual(fl.t, late, 2*b.set.backoff.Max, "%d denied", denied)
		})
	}
}

// The holder has crashed, or its client announces nothing. The lock is found when its keys have
// expired.
func TestTheLockOfACrashedHolderIsFoundByExpiry(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		b := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 700*time.Millisecond) })
		took := gets(t, wants(bg, b, "a")).took
		require.GreaterOrEqual(t, took, 700*time.Millisecond)
		require.LessOrEqual(t, took, 700*time.Millisecond+2*waiting.ExpiryMargin)
	})
}

// If keys expire at different times, the time at which a quorum is free counts.
func TestTheEndOfAQuorumIsWaitedForAndNotThatOfAllKeys(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		for i, m := range fl.masters {
			m.Set("a", "x", time.Duration(1+2*i)*100*time.Millisecond)
		}
		took := gets(t, wants(bg, fl.locker(), "a")).took
		require.InDelta(t, 0.3, took.Seconds(), 0.01+2*lateness().Seconds())
	})
}

// A poll finds the release of a client that announces nothing.
func TestAReleaseOfAForeignClientIsFoundByPoll(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Hour) })
		done := waitingFor(bg, fl.locker(), "a")
		pass(5 * time.Second)
		freed := time.Now()
		fl.each(func(m *fakeredis.Master) { m.Del("a") })
		require.LessOrEqual(t, gets(t, done).at.Sub(freed), waiting.MaxPollPause)
	})
}

// One announcement alone is not a quorum: the contender waits a moment for the others.
func TestOneAnnouncementIsFollowedSoonAndNotAtOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // the others give the lock
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		for _, m := range fl.masters[1:] {
			for _, c := range subscribers(m) {
				c.HoldReplies()
			}
		}
		released := time.Now()
		require.NoError(t, k.Release(bg))
		require.Equal(t, waiting.AnnounceGrace, gets(t, done).at.Sub(released))
		fl.answered()
	})
}

// Others took an attempt for a holder, and it is given up because its quorum came too late. The
// waiters must be notified of that.
func TestAnAttemptThatWasWonAndGivenUpIsAnnounced(t *testing.T) {
	late.LeaveOut(t, "it measures times")
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(WithNodeTimeout(900*time.Millisecond)), fl.process().locker(longBackoff)
		fl.each(func(m *fakeredis.Master) { m.SetDelay(490 * time.Millisecond) })
		tried := make(chan error)
		go func() {
			_, err := a.TryAcquire(bg, "a", time.Second, WithStopMargin(500*time.Millisecond))
			tried <- err
		}()
		time.Sleep(time.Millisecond)
		fl.each(func(m *fakeredis.Master) { m.SetDelay(0) }) // for b
		done := wants(bg, b, "a")
		require.ErrorIs(t, <-tried, ErrTooLate)
		require.Less(t, gets(t, done).took, 700*time.Millisecond, "before the keys would have expired")
	})
}
