package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Inspect says who holds a name, on which nodes, for how long: what a quorum shares.
func TestInspectShowsTheHolder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithOwner("worker-7"), WithKeyPrefix("p:"))
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		time.Sleep(time.Second)
		fl.masters[0].Set("p:a", k.Token(), time.Second) // one node will forget it sooner
		s, err := fl.locker(WithKeyPrefix("p:")).Inspect(bg, "a")
		require.NoError(t, err)
		require.Equal(t, &Status{
			Name: "a", Held: true, Owner: "worker-7", Remaining: 59 * time.Second,
			Nodes: []NodeStatus{
				{Node: "n1", Held: true, Owner: "worker-7", Token: "worker-7:…", Remaining: time.Second},
				{Node: "n2", Held: true, Owner: "worker-7", Token: "worker-7:…", Remaining: 59 * time.Second},
				{Node: "n3", Held: true, Owner: "worker-7", Token: "worker-7:…", Remaining: 59 * time.Second},
			},
		}, s)
		require.NoError(t, k.Release(bg))
		time.Sleep(time.Millisecond)
		s, err = l.Inspect(bg, "a")
		require.NoError(t, err)
		require.Equal(t, &Status{Name: "a", Nodes: []NodeStatus{{Node: "n1"}, {Node: "n2"}, {Node: "n3"}}}, s)
	})
}

// Less than a quorum of one token is not held, though no name could be taken either.
func TestInspectTellsAPartialHoldFromALock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		mine := wire.NewToken("she")
		fl.masters[0].Set("a", mine, time.Minute)
		fl.masters[1].Set("a", "another", time.Hour)
		fl.masters[2].PushList("a")
		s, err := l.Inspect(bg, "a")
		require.NoError(t, err)
		require.False(t, s.Held)
		require.Empty(t, s.Owner)
		require.Zero(t, s.Remaining)
		require.Equal(t, []NodeStatus{
			{Node: "n1", Held: true, Owner: "she", Token: "she:…", Remaining: time.Minute},
			{Node: "n2", Held: true, Token: "…", Remaining: time.Hour},
			{Node: "n3", Err: ErrForeignKey, Remaining: -time.Millisecond},
		}, s.Nodes)
	})
}

// A key without an expiry is shown by a negative time left, on a node, and of the whole
// where a quorum has no other.
func TestInspectShowsKeysThatNeverExpire(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
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
		require.Equal(t, time.Hour, s.Remaining) // so long n3 keeps it, and n1 for ever
		fl.masters[1].Set("a", "x", 0)
		s, err = l.Inspect(bg, "a")
		require.NoError(t, err)
		require.Negative(t, s.Remaining)
	})
}

// A dead or frozen node is shown with its trouble; the others decide. Without a quorum
// there is an error, and what the others said all the same.
func TestInspectWithNodesThatAreGone(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithOwner("she"))
		_, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
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

// No status shows more of a token than its label.
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

// Healthy is nil while a quorum answers.
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
		require.Zero(t, took) // both are known to be away
		require.ErrorContains(t, err, "ping")
		require.ErrorContains(t, err, "n1: failed")
		require.ErrorContains(t, err, "n2: failed: pool: no connection")
		fl.thaw()
		require.NoError(t, fl.masters[1].Restart(true))
		time.Sleep(time.Second)
		_, err = healthy()
		require.NoError(t, err)
		fl.close(l)
		matches(t, l.Healthy(bg), ErrClosed)
	})
}
