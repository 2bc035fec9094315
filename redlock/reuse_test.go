package redlock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// unused reports whether no reference to a round is left. An unused round is empty and may become
// another lock's at any time.
func unused(r *vote.Round) bool { return r.Users() == 0 && r.Owner == nil }

// takeSlowly acquires a lock whose last node has not answered yet. The round of the acquisition is
// complete, and no longer the lock's, when the function is called that it returns.
func takeSlowly(fl *testbed, l *Locker, opts ...LockOption) (k *Lock, acquire *vote.Round, complete func()) {
	last := fl.masters[len(fl.masters)-1]
	last.Freeze()
	k = take(fl.t, l, "a", time.Minute, opts...)
	acquire = k.keys.acquire
	return k, acquire, func() {
		last.Unfreeze()
		fl.answered()
		require.Nil(fl.t, k.keys.acquire)
	}
}

// A lock that every node granted and released leaves its rounds to the next lock: that of the
// acquisition when the last node has granted it.
func TestARoundIsUsedAgain(t *testing.T) {
	for _, n := range []int{3, 5} {
		inBubble(t, n, func(fl *testbed) {
			l := fl.locker()
			for range 100 {
				k, acquire, complete := takeSlowly(fl, l)
				require.EqualValues(t, 2, acquire.Users(), "the lock, and a node that has not answered")
				complete()
				require.True(t, unused(acquire))
				require.NoError(t, k.Release(bg))
				fl.answered()
				require.True(t, unused(k.keys.undo))
			}
			require.Empty(t, fl.left())
		})
	}
}

// A lock that is released before the last node has granted it keeps its acquisition until then.
func TestARoundOfAReleasedLockIsUsedAgain(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		for range 100 {
			k, acquire, _ := takeSlowly(fl, l)
			require.NoError(t, k.Release(bg))
			require.Same(t, acquire, k.keys.acquire)
			require.EqualValues(t, 1, acquire.Users())
			fl.masters[2].Unfreeze()
			fl.answered()
			require.True(t, unused(acquire))
			require.True(t, unused(k.keys.undo))
		}
		require.Empty(t, fl.left())
	})
}

// A lock with an asynchronous release also leaves its rounds to the next lock, after the last
// answer.
func TestARoundIsUsedAgainBehindAnAsyncRelease(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		for range 100 {
			k := take(t, l, "a", time.Minute, WithAsyncRelease())
			fl.masters[2].Freeze()
			require.NoError(t, k.Release(bg))
			fl.answered()
			require.EqualValues(t, 1, k.keys.undo.Users(), "one node has not answered")
			require.Equal(t, k, k.keys.undo.Owner)
			fl.masters[2].Unfreeze()
			fl.answered()
			require.True(t, unused(k.keys.undo))
		}
		require.Empty(t, fl.left())
	})
}

// The round is kept until the last answer, which may come long after Release has returned.
func TestARoundIsNotUsedAgainBeforeTheLastAnswer(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		fl.masters[2].Freeze()
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		require.EqualValues(t, 1, k.keys.undo.Users())
		require.Equal(t, k, k.keys.undo.Owner)
		fl.masters[2].Unfreeze()
		fl.answered()
		require.True(t, unused(k.keys.undo))
	})
}

// Servers that are down, and commands to frozen ones that are cancelled, make no difference.
func TestARoundIsUsedAgainWhileAMasterIsDown(t *testing.T) {
	for what, fail := range map[string]func(m *fakeredis.Master){"down": (*fakeredis.Master).Stop, "frozen": (*fakeredis.Master).Freeze} {
		inBubble(t, 3, func(fl *testbed) {
			fl.lateAt(2) // it fails
			l := fl.locker()
			fail(fl.masters[2])
			for range 10 { // until the connection is found silent, or has ended
				require.NoError(fl.t, take(fl.t, l, "b", time.Minute).Release(bg))
				pass(100*time.Millisecond + lateness())
			}
			k := take(fl.t, l, "c", time.Minute)
			require.NoError(fl.t, k.Release(bg))
			pass(100*time.Millisecond + lateness())
			require.True(fl.t, unused(k.keys.undo), what)
			require.True(fl.t, k.keys.acquire == nil || unused(k.keys.acquire), what)
			fl.masters[2].Unfreeze()
		})
	}
}

// A round that is still referred to is not used again. This may be by a timer that fired, a
// node that sent a command twice or will repeat it, or hooks, which read it later.
func TestARoundThatOthersMayStillKnowIsNotUsedAgain(t *testing.T) {
	acquired := func(fl *testbed, opts ...Option) *Lock {
		return take(fl.t, fl.locker(opts...), "a", time.Minute)
	}
	for why, release := range map[string]func(fl *testbed) *vote.Round{
		"a node that refused": func(fl *testbed) *vote.Round {
			fl.masters[2].Set("a", "x", time.Hour)
			k, acquire, complete := takeSlowly(fl, fl.locker())
			complete()
			require.NoError(fl.t, k.Release(bg))
			return acquire
		},
		"nodes that answered after the node timeout": func(fl *testbed) *vote.Round {
			k := acquired(fl)
			fl.masters[1].Freeze()
			fl.masters[2].Freeze()
			require.ErrorIs(fl.t, k.Release(bg), ErrNoQuorum)
			fl.masters[1].Unfreeze()
			fl.masters[2].Unfreeze()
			return k.keys.undo
		},
		"an undo that was sent anew": func(fl *testbed) *vote.Round {
			k := acquired(fl)
			fl.masters[2].FailWith("EVALSHA", "BUSY")
			require.NoError(fl.t, k.Release(bg))
			fl.answered()
			fl.masters[2].FailWith("EVALSHA", "")
			return k.keys.undo
		},
		"an undo that no answer ended before its keys had expired": func(fl *testbed) *vote.Round {
			k := acquired(fl)
			fl.masters[2].FailWith("EVALSHA", "BUSY")
			require.NoError(fl.t, k.Release(bg))
			pass(2 * time.Minute)
			require.Zero(fl.t, booked(k.l))
			fl.masters[2].FailWith("EVALSHA", "")
			return k.keys.undo
		},
		"an undo that another connection may have carried": func(fl *testbed) *vote.Round {
			k := acquired(fl)
			fl.masters[2].Freeze()
			require.NoError(fl.t, k.Release(bg))
			synctest.Wait() // two answers are a quorum: the third node's connection may not have received its undo yet
			fl.masters[2].Stop()
			require.NoError(fl.t, fl.masters[2].Restart(true))
			fl.masters[2].Unfreeze()
			return k.keys.undo
		},
		"hooks": func(fl *testbed) *vote.Round {
			k := acquired(fl, WithTrace(&Trace{}))
			require.NoError(fl.t, k.Release(bg))
			return k.keys.undo
		},
	} {
		inBubble(t, 3, func(fl *testbed) {
			r := release(fl)
			pass(10 * time.Second)
			require.False(fl.t, unused(r), why)
		})
	}
}

// A timer has begun to fire when the last answer decides. It must fire on a round that belongs to
// no other lock.
func TestARoundIsNotUsedAgainUnderATimerThatFires(t *testing.T) {
	for what, opts := range map[string][]LockOption{"waited for": nil, "not waited for": {WithAsyncRelease()}} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			k := take(fl.t, l, "a", time.Minute, opts...)
			fl.each(func(m *fakeredis.Master) { m.SetDelay(time.Millisecond) })
			done := make(chan error, 1)
			go func() { done <- k.Release(bg) }()
			synctest.Wait()
			k.keys.undo.ClearTimer() // as when it begins to fire
			require.NoError(fl.t, <-done)
			pass(time.Second)
			require.False(fl.t, unused(k.keys.undo), what)
		})
	}
}

// The timer of an undo bounds how long Close waits for it. The round is not used again,
// even if the last answer comes at that time.
func TestARoundIsNotUsedAgainWhileCloseWaitsForIt(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		fl.masters[2].Freeze()
		require.NoError(t, k.Release(bg))
		_, registered := k.pendingUndo()
		require.True(t, registered)
		fl.masters[2].Unfreeze()
		fl.answered()
		_, registered = k.pendingUndo()
		require.False(t, registered)
		require.False(t, unused(k.keys.undo))
	})
}

// noting is a node that reads commands after their answers.
type noting struct {
	command.Voter
	seen []string
}

func (n *noting) Submit(c *command.Command) {
	c.To = notingTo{n, c.To}
	n.Voter.Submit(c)
}

func (n *noting) SubmitBoth(first, second *command.Command) {
	n.Submit(first)
	n.Submit(second)
}

type notingTo struct {
	node *noting
	to   command.Answerer
}

func (o notingTo) Answer(c *command.Command, r command.Reply) {
	o.to.Answer(c, r)
	o.node.seen = append(o.node.seen, c.Op.String())
}

// The library cannot know what a user's own nodes keep, even if they wrap a pool.Node.
func TestARoundIsNotUsedAgainByNodesOfTheUsersOwn(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		n := &noting{Voter: fl.voter(0)}
		l, err := newOver([]command.Voter{n, fl.voter(1), fl.voter(2)}, WithClock(fl.clock))
		require.NoError(t, err)
		defer fl.close(l)
		fl.answered()
		k, acquire, complete := takeSlowly(fl, l)
		complete()
		fl.masters[0].SetDelay(time.Millisecond) // its answer is the last one
		require.NoError(t, k.Release(bg))
		pass(time.Second)
		require.Equal(t, []string{"acquire", "release"}, n.seen)
		require.False(t, unused(k.keys.undo))
		require.False(t, unused(acquire))
	})
}
