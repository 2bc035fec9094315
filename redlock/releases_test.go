package redlock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// longBackoff keeps contenders from trying by themselves, so that what wakes them is seen.
var longBackoff = WithBackoff(10*time.Second, 10*time.Second)

// docs/dev/rules.md rule 20: a release is heard of in one message time, and costs a waiter the
// acquire's round trip after that.
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

// A contender that waits for nothing but messages costs no command: one poll in at least
// three quarters of a second, and a ping for each node's connection.
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
		// Each of at most 80 polls asks three nodes, and then those that refused who it is.
		require.LessOrEqual(t, fl.count("SET", "EVALSHA"), 80*6)
		require.LessOrEqual(t, fl.count("PING"), 3*13)
		require.Zero(t, fl.count("SUBSCRIBE"), "one subscription, made before")
		require.Equal(t, 1000, b.queue.Waiting("a"))
	})
}

// waitsSeldom has b wait a minute for a lock on "a" that another process holds, with five
// attempts at most before it waits, and a poll in three quarters of a second from then on, of
// so many commands each at most; and hear of the release. How many they are is a matter of the
// order of answers: an acquire that was not written when the attempt is lost is not sent at
// all, and one that was written and not answered is undone.
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

// While a master is down, the first refusal decides an attempt. Taken for a split vote it
// would have the contender try again after some milliseconds, as long as the master is down.
func TestWaitingWhileAMasterIsDownCostsABoundedPollOnly(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		synctest.Wait()
		fl.masters[2].Stop()
		waitsSeldom(fl, b, k, 5, "each poll asks two nodes, undoes on the one that was not waited for, and asks both who it is")
	})
}

// To tell a holder from a split vote, no frozen master is waited for where the others tell.
func TestAFrozenMasterKeepsNobodyFromHearingWhileAnotherIsDown(t *testing.T) {
	inBubble(t, 5, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		synctest.Wait()
		fl.masters[3].Stop()
		synctest.Wait()
		fl.masters[2].SetDelay(5 * time.Millisecond) // two refusals decide
		fl.masters[4].Freeze()
		defer fl.masters[4].Unfreeze()
		done := wants(bg, b, "a")
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, k.Release(bg))
		require.Less(t, gets(t, done).took, 100*time.Millisecond)
	})
}

// docs/dev/rules.md rule 20: whenever a release comes after the attempt that it refused, also
// while the subscription is being made, it is not missed. Nothing else would wake the
// waiter for ten seconds.
func TestAReleaseWhileTheSubscriptionIsMadeIsNotMissed(t *testing.T) {
	t.Parallel()
	for ms := range 60 {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.process().locker(), fl.process().locker(longBackoff)
			if ms < 6 { // before it has asked who the holder is there is nobody to wait for
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

// Whoever contends for a name again listens to it still, from before its attempt on. So
// it needs no second attempt to make sure that it missed nothing, and misses nothing.
func TestWhoWaitsAgainListensFromTheStart(t *testing.T) {
	t.Parallel()
	for ms := range 40 {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.process().locker(), fl.process().locker(WithBackoff(400*time.Millisecond, 10*time.Second))
			k := take(fl.t, a, "a", time.Hour)
			done := waitingFor(bg, b, "a")
			require.NoError(fl.t, k.Release(bg))
			require.NoError(fl.t, gets(fl.t, done).k.Release(bg))
			k = take(fl.t, a, "a", time.Hour)
			synctest.Wait()
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

// What is listened to is left a second after the last one waited, also when the name goes
// on being taken by whoever heard of it then: each of its releases would cost a message.
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
		synctest.Wait()
		quiet(t, b)
	})
}

// docs/dev/hazards.md H82: whatever becomes of the messages, a free lock is found within the
// poll bound.
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
					bound := maxPollPause + 300*time.Millisecond + 100*time.Millisecond
					require.LessOrEqual(fl.t, gets(fl.t, done).at.Sub(released), bound)
					fl.thaw()
				})
			})
		}
	}
}

// Where too few nodes can be subscribed to, a release is found by the backoff's polls.
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
				require.LessOrEqual(fl.t, late, announceGrace, "%d denied", denied)
			}
			require.LessOrEqual(fl.t, late, 2*b.set.maxBackoff, "%d denied", denied)
		})
	}
}

// A holder that dies, or that belongs to a client which publishes nothing, is found when
// what its keys have left is over.
func TestAHolderThatDiesIsFoundByExpiry(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		b := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 700*time.Millisecond) })
		took := gets(t, wants(bg, b, "a")).took
		require.GreaterOrEqual(t, took, 700*time.Millisecond)
		require.LessOrEqual(t, took, 700*time.Millisecond+2*expiryMargin)
	})
}

// Of keys that end at different times it is the quorum's end that counts.
func TestTheEndOfAQuorumIsWaitedForAndNotThatOfAllKeys(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		for i, m := range fl.masters {
			m.Set("a", "x", time.Duration(1+2*i)*100*time.Millisecond)
		}
		took := gets(t, wants(bg, fl.locker(), "a")).took
		require.InDelta(t, 0.3, took.Seconds(), 0.01)
	})
}

// The release of a client that publishes nothing is found by a poll.
func TestAReleaseOfAForeignClientIsFoundByPoll(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Hour) })
		done := waitingFor(bg, fl.locker(), "a")
		pass(5 * time.Second)
		freed := time.Now()
		fl.each(func(m *fakeredis.Master) { m.Del("a") })
		require.LessOrEqual(t, gets(t, done).at.Sub(freed), maxPollPause)
	})
}

// One announcement alone is no quorum: the contender waits a moment for the others'.
func TestOneAnnouncementIsFollowedSoonAndNotAtOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
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
		require.Equal(t, announceGrace, gets(t, done).at.Sub(released))
		synctest.Wait()
	})
}

// An attempt that others took for a holder tells them when it is given up: here its
// quorum came too late to be of use.
func TestAnAttemptThatWasWonAndGivenUpIsAnnounced(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker(longBackoff)
		fl.each(func(m *fakeredis.Master) { m.SetDelay(400 * time.Millisecond) })
		tried := make(chan error)
		go func() {
			_, err := a.TryAcquire(bg, "a", time.Minute, WithMinValidity(time.Minute-time.Second))
			tried <- err
		}()
		time.Sleep(time.Millisecond)
		fl.each(func(m *fakeredis.Master) { m.SetDelay(0) }) // for b
		done := wants(bg, b, "a")
		require.ErrorIs(t, <-tried, ErrTooLate)
		require.Less(t, gets(t, done).took, time.Second)
	})
}

// Who is told of a release while it takes the lock has an alarm that may have begun to ring:
// its memory is not another acquisition's, or that alarm would read what the other writes.
func TestWhoHeardSomethingIsNotUsedAgain(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.process().locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		pass(time.Second)
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, done).k.Release(bg))

		w := newRequest("a", time.Hour)
		w.waiter.enqueue(bg, b, w)
		behind, _ := w.waiter.mustWait()
		require.False(t, behind)
		require.True(t, w.waiter.subscribedBefore, "the channels stand, so that it listens from before its attempt on")
		(&nodeListener{table: b.waitTable}).Message(wire.FreePrefix+"a", "")
		w.waiter.dequeue()
		w.recycle()
		require.Equal(t, []string{"a"}, w.names)
		w.waiter.Fire(nil)
	})
}
