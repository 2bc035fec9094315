package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/late"
)

// Inspect reports the holder of a name, its nodes and its remaining time on a quorum.
func TestInspectShowsTheHolder(t *testing.T) {
	late.LeaveOut(t, "it compares the time left on each node at one instant")
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithOwner("worker-7"), WithKeyPrefix("p:"))
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		time.Sleep(time.Second)
		fl.masters[0].Set("p:a", k.Token(), time.Second) // one node's key expires sooner
		s, err := fl.locker(WithKeyPrefix("p:")).Inspect(bg, "a")
		require.NoError(t, err)
		require.Equal(t, &Status{
			Name: "a", Held: true, Owner: "worker-7", ID: k.ID(), Remaining: 59 * time.Second,
			Nodes: []NodeStatus{
				{Node: "n1", Held: true, Owner: "worker-7", ID: k.ID(), Token: "worker-7:…", Remaining: time.Second},
				{Node: "n2", Held: true, Owner: "worker-7", ID: k.ID(), Token: "worker-7:…", Remaining: 59 * time.Second},
				{Node: "n3", Held: true, Owner: "worker-7", ID: k.ID(), Token: "worker-7:…", Remaining: 59 * time.Second},
			},
		}, s)
		require.NoError(t, k.Release(bg))
		time.Sleep(time.Millisecond)
		s, err = l.Inspect(bg, "a")
		require.NoError(t, err)
		require.Equal(t, &Status{Name: "a", Nodes: []NodeStatus{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}}, s)
	})
}

// A token on less than a quorum is not a holder, even if no other token could reach a quorum.
func TestInspectDistinguishesAPartialHoldFromALock(t *testing.T) {
	late.LeaveOut(t, "it compares the time left on each node at one instant")
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		mine := command.NewToken("she")
		fl.masters[0].Set("a", mine, time.Minute)
		fl.masters[1].Set("a", "another", time.Hour)
		fl.masters[2].PushList("a")
		s, err := l.Inspect(bg, "a")
		require.NoError(t, err)
		require.False(t, s.Held)
		require.Empty(t, s.Owner)
		require.Zero(t, s.Remaining)
		require.Equal(t, []NodeStatus{
			{Node: "n1", Held: true, Owner: "she", ID: command.ID(mine), Token: "she:…", Remaining: time.Minute},
			{Node: "n2", Held: true, Token: "…", Remaining: time.Hour},
			{Node: "n3", Err: ErrForeignKey, Remaining: -time.Millisecond},
		}, s.Nodes)
	})
}

// A key without an expiry is reported with a negative time left: on its node, and as a whole if a
// quorum has only such keys.
func TestInspectShowsKeysThatNeverExpire(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // its key never expires
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 0) })
		s, err := l.Inspect(bg, "a")
		require.NoError(t, err)
		require.True(t, s.Held)
		require.Negative(t, s.Remaining)
		require.Negative(t, s.Nodes[0].Remaining)
		fl.masters[1].Set("a", "x", time.Minute)
		fl.masters[2].Set("a", "x", time.Hour)
		s, err = l.Inspect(bg, "a")
		require.NoError(t, err)
		require.True(t, s.Held)
		require.Equal(t, time.Hour, s.Remaining) // n3 keeps it for so long, and n1 forever
		fl.masters[1].Set("a", "x", 0)
		s, err = l.Inspect(bg, "a")
		require.NoError(t, err)
		require.Negative(t, s.Remaining)
	})
}

// A node that is down or frozen is reported with its error, and the others decide. Without a quorum
// Inspect returns an error, and the others' reports all the same.
func TestInspectWithNodesThatAreGone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // it stops
		l := fl.locker(WithOwner("she"))
		_, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		fl.heldEverywhere("a")
		fl.masters[0].Stop()
		time.Sleep(time.Second)
		var s *Status
		require.Zero(t, elapsed(func() { s, err = l.Inspect(bg, "a") }))
		require.NoError(t, err)
		require.True(t, s.Held)
		require.ErrorContains(t, s.Nodes[0].Err, "connection refused")
		require.True(t, s.Nodes[1].Held)

		fl.masters[1].Freeze()
		took := elapsed(func() { s, err = l.Inspect(bg, "a") })
		require.Equal(t, maxNodeTimeout, took)
		matches(t, err, ErrNoQuorum, ErrNodeTimeout)
		require.ErrorContains(t, err, `inspect "a": 1 of 3 votes, 2 needed`)
		require.False(t, s.Held)
		require.ErrorIs(t, s.Nodes[1].Err, ErrNodeTimeout)
		require.True(t, s.Nodes[2].Held)
		require.Equal(t, "she", s.Nodes[2].Owner)
	})
}

// A status never shows more of a token than its label.
func TestInspectShowsNoToken(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		s, err := l.Inspect(bg, "a")
		require.NoError(t, err)
		for _, n := range s.Nodes {
			require.False(t, strings.Contains(n.Token, k.Token()[:4]))
		}
	})
}

// Healthy returns nil while a quorum answers.
func TestHealthyWhileAQuorumAnswers(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.SetDelay(trip) })
		healthy := func() (took time.Duration, err error) {
			took = elapsed(func() { err = l.Healthy(bg) })
			return took, err
		}
		took, err := healthy()
		require.NoError(t, err)
		require.Equal(t, trip, took)
		fl.masters[0].Freeze()
		took, err = healthy()
		require.NoError(t, err)
		require.Equal(t, trip, took)
		fl.masters[1].Stop()
		time.Sleep(10 * time.Second)
		took, err = healthy()
		matches(t, err, ErrNoQuorum)
		require.Zero(t, took) // both are known to be down
		require.ErrorContains(t, err, "ping")
		require.ErrorContains(t, err, "n1: failed")
		require.ErrorContains(t, err, "n2: failed: pool: no connection to redis://")
		fl.thaw()
		require.NoError(t, fl.masters[1].Restart(true))
		time.Sleep(time.Second)
		_, err = healthy()
		require.NoError(t, err)
		fl.close(l)
		matches(t, l.Healthy(bg), ErrClosed)
	})
}
