package integration

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

func TestAForeignKeyIsReportedAndLeftAlone(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	for _, n := range nodes[:2] {
		n.Do(t, "LPUSH", "x", "somebody's")
	}
	for what, acquire := range map[string]func() (*redlock.Lock, error){
		"TryAcquire":    func() (*redlock.Lock, error) { return l.TryAcquire(t.Context(), "x", time.Minute) },
		"Acquire":       func() (*redlock.Lock, error) { return l.Acquire(t.Context(), "x", time.Minute) }, // must not wait forever
		"TryAcquireAll": func() (*redlock.Lock, error) { return l.TryAcquireAll(t.Context(), []string{"w", "x"}, time.Minute) },
	} {
		_, err := acquire()
		require.ErrorIs(t, err, redlock.ErrForeignKey, what)
		require.NotErrorIs(t, err, redlock.ErrHeld, what)
	}
	s, err := l.Inspect(t.Context(), "x")
	require.NoError(t, err)
	assert.False(t, s.Held)
	require.ErrorIs(t, s.Nodes[0].Err, redlock.ErrForeignKey)
	require.NoError(t, s.Nodes[2].Err)
	answered(t, l)
	releasedEverywhere(t, nodes, "w")
	for _, n := range nodes[:2] {
		assert.Equal(t, []string{"x"}, n.Keys(t, "*"))
		assert.Equal(t, int64(1), n.Do(t, "LLEN", "x"))
	}
	redistest.NoKeys(t, nodes[2:], time.Second)
}

func TestALockWhoseKeyBecomesSomethingElseIsLost(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	k := acquired(t, l, "x", time.Minute)
	heldEverywhere(t, nodes, "x")
	for _, n := range nodes[1:] {
		n.Do(t, "DEL", "x")
		n.Do(t, "SADD", "x", "somebody's")
	}
	require.ErrorIs(t, k.Extend(t.Context(), time.Minute), redlock.ErrLost)
	require.ErrorIs(t, k.Release(t.Context()), redlock.ErrLost)
	answered(t, l)
	for _, n := range nodes[1:] {
		assert.Equal(t, int64(1), n.Do(t, "SCARD", "x"), "a release deletes only its own key")
	}
	redistest.NoKeys(t, nodes[:1], time.Second)
}

func TestAKeyWithoutAnExpiryIsReported(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	for _, n := range nodes {
		n.Do(t, "SET", "x", "somebody:else's")
	}
	_, err := l.TryAcquire(t.Context(), "x", time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	var held *redlock.HeldError
	require.ErrorAs(t, err, &held)
	assert.Negative(t, held.Remaining)
	assert.ErrorContains(t, err, "without an expiry")
}

func TestTheLongestAndTheShortestTTL(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	for _, ttl := range []time.Duration{redlock.MinTTL - time.Millisecond, 0, -1, redlock.DefaultMaxTTL + time.Millisecond, 1500 * time.Microsecond} {
		_, err := l.TryAcquire(t.Context(), "x", ttl)
		require.ErrorIs(t, err, redlock.ErrInvalid, "%v", ttl)
		redistest.NoKeys(t, nodes, 0)
	}
	k := acquired(t, l, "x", redlock.DefaultMaxTTL)
	heldEverywhere(t, nodes, "x")
	for _, n := range nodes {
		left, err := redis.Int64(n.Do(t, "PTTL", "x"), nil)
		require.NoError(t, err)
		assert.InDelta(t, redlock.DefaultMaxTTL.Milliseconds(), left, 20_000)
	}
	require.ErrorIs(t, k.Extend(t.Context(), redlock.DefaultMaxTTL+time.Millisecond), redlock.ErrInvalid)
	require.ErrorIs(t, k.Extend(t.Context(), 0), redlock.ErrInvalid)
	require.NoError(t, k.Extend(t.Context(), 2*busyTimeout), "the validity is not shortened")
	assert.Greater(t, k.Remaining(), redlock.DefaultMaxTTL*9/10)
	require.NoError(t, k.Check(t.Context()))
	released(t, k)
	redistest.NoKeys(t, nodes, time.Second)
}
