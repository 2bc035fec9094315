package redlock

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/internal/waiting"
	"github.com/quorumlock/go-redlock/pool"
)

// settled waits until the waiters have subscribed, queried the holder and polled once.
func (fl *testbed) settled() {
	pass(3 * time.Second)
	fl.forget()
}

// lateness is how much later a poll may end because a master is late.
func lateness() time.Duration {
	if late.On() {
		return maxLate
	}
	return 0
}

// quotas checks the number of polls and of all commands that each master was sent. A poll that a late
// master answers is followed later by the next one, so there may be fewer.
func (fl *testbed) quotas(least, most, all int) {
	fl.t.Helper()
	fl.answered()
	fl.each(func(m *fakeredis.Master) {
		sum := 0
		for _, n := range m.Commands() {
			sum += n
		}
		polls := m.Commands()["PTTL"]
		if late.On() {
			most, all = most+2, all+2 // it takes longer
		} else {
			require.GreaterOrEqual(fl.t, polls, least, "%v", m.Commands())
		}
		require.LessOrEqual(fl.t, polls, most, "%v", m.Commands())
		require.LessOrEqual(fl.t, sum, all, "%v", m.Commands())
	})
}

// docs/dev/rules.md rule 20: a waiter sends each node one plain command a second, and makes no
// attempt while the lock is held.
func TestTenWaitingProcessesCostAFewCommands(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.locker(), "a", time.Hour)
		for range 10 {
			wants(bg, fl.process().locker(), "a")
		}
		fl.settled()
		pass(4 * time.Second)
		fl.quotas(35, 50, 60)
		require.Zero(t, fl.count("SET", "EVALSHA", "EVAL"))
	})
}

// slowToSubmit is a node whose Submit of a poll returns late, as if the poller were not scheduled.
type slowToSubmit struct{ command.Voter }

func (n slowToSubmit) Submit(c, behind *command.Command) error {
	poll := c.Op == command.Poll
	err := n.Voter.Submit(c, behind)
	if poll {
		time.Sleep(time.Millisecond)
	}
	return err
}

// A poll that is answered before the poller sleeps ends at once, and not with the node timeout.
func TestAPollThatIsAnsweredBeforeTheParkEndsAtOnce(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		nodes := make([]command.Voter, 3)
		for i := range nodes {
			nodes[i] = slowToSubmit{fl.voter(i)}
		}
		l, err := newOver(nodes, WithClock(fl.clock))
		require.NoError(t, err)
		defer fl.close(l)
		k := take(t, fl.locker(), "a", time.Hour)
		done := wants(bg, l, "a")
		fl.settled()
		pass(10 * time.Second)
		fl.quotas(10, 11, 14) // and three health checks
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, done).k.Release(bg))
	})
}

// A poll sends one command for each name.
func TestAPollQueriesEachName(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.locker(), fl.process().locker()
		k := take(t, a, "b", time.Hour)
		done := wants(bg, b, "a", "b", "c")
		fl.settled()
		pass(4 * time.Second)
		fl.quotas(3*4, 3*5, 3*5+2)
		require.Zero(t, fl.count("SET", "EVALSHA", "EVAL"))
		require.NoError(t, k.Release(bg))
		require.NoError(t, gets(t, done).k.Release(bg))
	})
}

// docs/dev/hazards.md H82: a poll finds the free lock, and an attempt follows.
func TestALostAnnouncementCostsASecond(t *testing.T) {
	for range 5 {
		inBubble(t, 3, func(fl *testbed) {
			a, b := fl.locker(), fl.process().locker()
			k := take(t, a, "a", time.Hour)
			done := wants(bg, b, "a")
			pass(3 * time.Second)
			fl.each(func(m *fakeredis.Master) {
				require.Len(t, subscribers(m), 1)
				subscribers(m)[0].HoldReplies()
			})
			released := time.Now()
			require.NoError(t, k.Release(bg))
			require.LessOrEqual(t, gets(t, done).at.Sub(released), waiting.MaxPollPause+lateness())
		})
	}
}

// A holder extends its lock and then crashes. Polls have learned the new expiry, so the waiter
// acquires when the keys expire.
func TestAPollReportsWhenAnExtendedLockExpires(t *testing.T) {
	for i := range 5 {
		inBubble(t, 3, func(fl *testbed) {
			token := command.NewToken("dead")
			fl.each(func(m *fakeredis.Master) { m.Set("a", token, time.Hour) })
			done := wants(bg, fl.locker(), "a")
			fl.settled()
			left := 2*time.Second + time.Duration(i)*77*time.Millisecond
			fl.each(func(m *fakeredis.Master) { m.Set("a", token, left) })
			took := elapsed(func() { gets(t, done) })
			require.GreaterOrEqual(t, took, left)
			require.LessOrEqual(t, took, left+2*waiting.ExpiryMargin)
		})
	}
}

// A holder extends its lock again and again. The waiter must not try at each end that an earlier
// poll reported.
func TestAShortLockThatIsExtendedIsPolledOncePerSecond(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		token := command.NewToken("busy")
		extend := func() { fl.each(func(m *fakeredis.Master) { m.Set("a", token, 90*time.Millisecond) }) }
		extend()
		done := wants(bg, fl.locker(), "a")
		for range 600 {
			pass(10 * time.Millisecond)
			extend()
			require.Empty(t, done)
		}
		require.LessOrEqual(t, fl.count("SET"), 3*3)
		require.LessOrEqual(t, fl.count("PTTL"), 3*8)
		extended := time.Now()
		require.LessOrEqual(t, gets(t, done).at.Sub(extended), 90*time.Millisecond+waiting.MaxPollPause+lateness())
	})
}

// A name whose key never expires is waited for and polled like any other.
func TestAKeyThatNeverExpiresIsPolled(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.isPolledUntilFree(command.NewToken(""), 0, 4*time.Second, waiting.MaxPollPause, 4, 5, 7)
	})
}

// isPolledUntilFree sets the key on all nodes, for ttl. For the time while a waiter sends as many
// commands as quotas allows, and makes no attempt. It gets the lock within pause after the key's
// deletion.
func (fl *testbed) isPolledUntilFree(value string, ttl, while, pause time.Duration, least, most, all int) {
	fl.t.Helper()
	fl.each(func(m *fakeredis.Master) { m.Set("a", value, ttl) })
	done := wants(bg, fl.locker(), "a")
	fl.settled()
	pass(while)
	fl.quotas(least, most, all)
	require.Zero(fl.t, fl.count("SET", "EVALSHA", "EVAL"))
	freed := time.Now()
	fl.each(func(m *fakeredis.Master) { m.Del("a") })
	require.LessOrEqual(fl.t, gets(fl.t, done).at.Sub(freed), pause+lateness())
}

// A node that does not vote blocks an attempt as a key does. Here one node is quarantined or down,
// and another one has a key.
func TestNoAttemptIsMadeWhileNodesDoNotVote(t *testing.T) {
	t.Parallel()
	for what, out := range map[string]func(*testbed, *Lock){"quarantined": flushed, "stopped": stopped} {
		whereNoClientCan(t, out, func(fl *testbed, _ *Lock, _ <-chan won) {
			fl.forget()
			pass(6 * time.Second)
			require.Zero(t, scripts(fl.masters[2], "acquire"), what)
			require.Greater(t, fl.masters[2].Commands()["PTTL"], 20, what)
		})
	}
}

// A poll neither starts nor ends a quarantine.
func TestAPollDoesNotTouchTheRestartGuard(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.guarded(), "a", guardTTL)
		b := fl.process().locker(WithRestartGuard(guardTTL))
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		go func() { _, _ = b.Acquire(ctx, "a", time.Second) }()
		fl.settled()
		fl.masters[2].FlushAll()
		pass(1500 * time.Millisecond)
		require.GreaterOrEqual(t, fl.masters[2].Commands()["PTTL"], 1)
		require.Empty(t, state(fl.masters[2]))
		require.NoError(t, k.Check(bg))
	})
}

// A poll without an answer is a fault. The next attempt reports it, and so does the error in the
// end.
func TestAnUnansweredPollIsAFault(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		take(t, fl.locker(), "a", time.Hour)
		ctx, cancel := context.WithTimeout(bg, 20*time.Second)
		defer cancel()
		done := wants(ctx, fl.process().locker(), "a")
		fl.settled()
		for _, m := range fl.masters[:2] {
			m.Freeze()
		}
		pass(3 * time.Second)
		require.Positive(t, fl.masters[2].Commands()["SET"])
		w := <-done
		require.ErrorIs(t, w.err, context.DeadlineExceeded)
		require.ErrorIs(t, w.err, ErrNoQuorum)
		fl.thaw()
	})
}

// The error in the end has the keys' remaining time as of the last poll.
func TestAPollRefreshesHowLongALockIsHeld(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		token := command.NewToken("she")
		fl.each(func(m *fakeredis.Master) { m.Set("a", token, time.Hour) })
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		done := wants(ctx, fl.locker(), "a")
		fl.settled()
		fl.each(func(m *fakeredis.Master) { m.Set("a", token, 20*time.Second) })
		var held *HeldError
		require.ErrorAs(t, (<-done).err, &held)
		require.Equal(t, "she", held.Owner)
		require.InDelta(t, 13, held.Remaining.Seconds(), 1.1+2*lateness().Seconds())
	})
}

// Otherwise the error would show the remaining time of one node as of now, and that of the others as of the first attempt.
func TestAPollRefreshesHowLongEachNodeHoldsTheLock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		token := command.NewToken("she")
		fl.each(func(m *fakeredis.Master) { m.Set("a", token, time.Hour) })
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		done := wants(ctx, fl.locker(), "a")
		fl.settled()
		fl.each(func(m *fakeredis.Master) { m.Set("a", token, 20*time.Second) })
		var last *QuorumError
		require.ErrorAs(t, (<-done).err, &last)
		var left []time.Duration
		for _, v := range last.Votes {
			var held *HeldError
			if errors.As(v.Err, &held) {
				left = append(left, held.Remaining)
			}
		}
		require.GreaterOrEqual(t, len(left), 2)
		for _, d := range left {
			require.InDelta(t, 13, d.Seconds(), 1.1+lateness().Seconds())
		}
	})
}

// So does a poll that ends the wait, if the attempt after it is cut short.
func TestAPollThatEndsTheWaitRefreshesHowLongALockIsHeld(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // its answers come last
		token := command.NewToken("she")
		fl.each(func(m *fakeredis.Master) { m.Set("a", token, time.Hour) })
		ctx, cancel := context.WithTimeout(bg, 5*time.Second)
		defer cancel()
		freeze := func(e WaitEvent) {
			if e.Reason == "poll" {
				fl.masters[1].Freeze()
				fl.masters[2].Freeze()
				time.AfterFunc(time.Millisecond, cancel)
			}
		}
		fl.masters[2].SetDelay(5 * time.Millisecond) // the error describes the holder on the first two nodes
		done := wants(ctx, fl.locker(WithTrace(&Trace{Woken: freeze})), "a")
		fl.settled()
		fl.masters[0].Set("a", token, 20*time.Second)
		for _, m := range fl.masters[1:] {
			m.Del("a")
			m.SetDelay(5 * time.Millisecond) // the first node's answer to the poll comes first
		}
		err := (<-done).err
		require.ErrorIs(t, err, context.Canceled)
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Less(t, held.Remaining, 20*time.Second)
		fl.thaw()
	})
}

// Clients of other libraries announce no releases, so their locks are polled as often as those
// libraries poll.
func TestAForeignHolderIsPolledOften(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.isPolledUntilFree("vUaK0H9tNXAZqK8q1vUaKQ==", time.Hour, 15*time.Second, waiting.MaxForeignPause, 60, 200, 210)
	})
}

// flood announces a release a thousand times a second on all nodes, until stop is called.
func (fl *testbed) flood(name, payload string) (stop func()) {
	var over atomic.Bool
	ended := make(chan struct{})
	var publishers []func()
	for _, m := range fl.masters {
		publishers = append(publishers, publisher(fl.t, m, name, payload))
	}
	go func() {
		defer close(ended)
		for !over.Load() {
			for _, publish := range publishers {
				publish()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() {
		over.Store(true)
		<-ended
	}
}

// A release right after a false announcement is noticed when the pause is over.
func TestAReleaseBehindAnAnnouncementInVainIsHeard(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		const pause = 100 * time.Millisecond
		a, b := fl.locker(), fl.process().locker(withBackoff(pause, pause))
		k := take(t, a, "a", time.Hour)
		done := wants(bg, b, "a")
		fl.settled()
		for i := range 2 { // a majority
			publisher(t, fl.masters[i], "a", "")()
		}
		for range maxLate / time.Millisecond {
			if fl.answered(); fl.count("SET") > 0 {
				break
			}
			pass(time.Millisecond)
		}
		require.Positive(t, fl.count("SET"), "it was followed by an attempt")
		released := time.Now()
		require.NoError(t, k.Release(bg))
		require.LessOrEqual(t, gets(t, done).at.Sub(released), pause+lateness())
	})
}

// After the flood, and after the lock had another holder, the next release is noticed at once
// again.
func TestAWaiterThatBackedOffHearsAgain(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		a, b := fl.locker(), fl.process().locker()
		k := take(t, a, "a", time.Hour)
		done := wants(bg, b, "a")
		fl.settled()
		stop := fl.flood("a", "")
		pass(10 * time.Second)
		stop()
		pass(2 * time.Second)
		released := time.Now()
		require.NoError(t, k.Release(bg))
		w := gets(t, done)
		require.LessOrEqual(t, w.at.Sub(released), waiting.AnnounceGrace+lateness())
		require.NoError(t, w.k.Release(bg))
	})
}

// tapped counts the bytes that a connection receives.
type tapped struct {
	net.Conn
	received *atomic.Int64
}

func (c tapped) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// A value that is too long for a token is not downloaded. It counts as an unknown holder, and is
// waited for.
func TestALongValueIsNotDownloaded(t *testing.T) {
	inBubble(t, 1, func(fl *testbed) {
		m := fl.masters[0]
		var received atomic.Int64
		n, err := pool.Open(pool.Config{
			Name: "n1", Address: m.Addr(), Clock: fl.clock,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := m.Dial(ctx, network, address)
				return tapped{c, &received}, err
			},
		})
		require.NoError(t, err)
		l, err := New([]*pool.Node{n}, WithClock(fl.clock))
		require.NoError(t, err)
		defer fl.close(l)
		for _, size := range []int{256, 257, 1 << 20} {
			m.Set("a", strings.Repeat("x", size), time.Hour)
			var held *HeldError
			err = tried(l)
			require.ErrorIs(t, err, ErrHeld)
			require.NotErrorIs(t, err, ErrForeignKey)
			require.ErrorAs(t, err, &held)
			require.Equal(t, HeldError{Remaining: time.Hour}, *held)
			s, err := l.Inspect(bg, "a")
			require.NoError(t, err)
			require.True(t, s.Held)
			require.Equal(t, "…", s.Nodes[0].Token)
		}
		done := wants(bg, l, "a")
		fl.settled()
		m.Del("a")
		gets(t, done)
		require.Less(t, received.Load(), int64(bufio.MaxScanTokenSize))
	})
}
