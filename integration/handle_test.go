package integration

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// unhurt bounds an operation while a minority of the nodes does not answer. An operation that waits
// for a frozen node takes the node timeout, which is ten times as long.
const unhurt = time.Second

// median returns the median duration of an operation over some tries.
func median(t *testing.T, try func(i int) error) time.Duration {
	t.Helper()
	took := make([]time.Duration, 15)
	for i := range took {
		began := time.Now()
		require.NoError(t, try(i))
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

func TestAFrozenNodeDelaysNeitherAcquireNorExtendNorRelease(t *testing.T) {
	late.LeaveOut(t, "it measures times while one node is frozen, and a late one is then needed")
	const ttl = 10 * time.Minute // a node that has not released keeps its keys
	nodes := masters(t, 3)
	l := open(t, nodes, redlock.WithNodeTimeout(10*unhurt))
	answered(t, l)
	held := make(map[string][]*redlock.Lock)
	for _, when := range []string{"before", "during"} {
		for i := range 15 {
			held[when] = append(held[when], acquired(t, l, when+strconv.Itoa(i), ttl))
		}
	}
	measure := func(when string) (acquire, extend, release time.Duration) {
		locks := held[when]
		extend = median(t, func(i int) error { return locks[i].Extend(t.Context(), 2*ttl) })
		release = median(t, func(i int) error { return locks[i].Release(t.Context()) })
		acquire = median(t, func(i int) error {
			k, err := l.TryAcquire(t.Context(), "new/"+when+strconv.Itoa(i), ttl)
			if err == nil {
				t.Cleanup(func() { _ = k.Release(context.Background()) })
			}
			return err
		})
		return acquire, extend, release
	}
	acquire, extend, release := measure("before")
	t.Logf("healthy: acquire %v, extend %v, release %v", acquire, extend, release)

	answered(t, l)
	for i := range nodes {
		assert.Len(t, nodes[i].Keys(t, "during*"), 15, "node %d", i)
	}
	nodes[1].Pause(t)
	acquire, extend, release = measure("during")
	t.Logf("frozen:  acquire %v, extend %v, release %v", acquire, extend, release)
	assert.Less(t, acquire, unhurt, "acquire")
	assert.Less(t, extend, unhurt, "extend")
	assert.Less(t, release, unhurt, "release")
	for _, n := range []*redistest.Node{nodes[0], nodes[2]} {
		assert.Empty(t, n.Keys(t, "during*"), "every node that answers has released")
	}

	nodes[1].Unpause(t)
	await(t, "the node that was frozen has released too", func() bool {
		return len(nodes[1].Keys(t, "during*")) == 0
	})
}

func TestAReleaseIsDoneWhenAMajorityHoldsNothingOfIt(t *testing.T) {
	nodes := masters(t, 3)
	const timeout = 4 * time.Second
	l, pools := openPools(t, nodes, func(*pool.Config) {}, redlock.WithNodeTimeout(timeout))
	answered(t, l)
	before := pools[2].Stats().DialFailures
	nodes[2].Kill(t)
	await(t, "the third node is known to be down", func() bool { return pools[2].Stats().DialFailures > before })
	k := acquired(t, l, "x", time.Minute) // on two nodes: nothing was sent to the third
	nodes[2].Restart(t)
	answered(t, l)
	nodes[1].Pause(t)

	began := time.Now()
	err := k.Release(t.Context())
	took := time.Since(began)
	nodes[1].Unpause(t)
	require.NoError(t, err, "the key is gone from the first node and never was on the third: the lock is free")
	assert.Less(t, took, timeout+busyTimeout, "at most the node timeout, because the second node might report that the lock was lost")
	redistest.NoKeys(t, nodes, time.Second)
}

// extensions records when the last automatic extension of a lock that succeeded began.
type extensions struct {
	mu    sync.Mutex
	began time.Time
}

func (e *extensions) trace() redlock.Option {
	return redlock.WithTrace(&redlock.Trace{Extended: func(ev redlock.RoundEvent) {
		if ev.Err != nil {
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.began = time.Now().Add(-ev.Took)
	}})
}

// next waits until an extension has succeeded that began after this call.
func (e *extensions) next(t *testing.T) {
	t.Helper()
	called := time.Now()
	await(t, "an extension", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.began.After(called)
	})
}

func TestAnExtendedLockOutlivesTheDeathAndTheReturnOfANode(t *testing.T) {
	nodes := masters(t, 3)
	var extended extensions
	l := open(t, nodes, extended.trace())
	answered(t, l)
	const ttl = 3 * busyTimeout // an extension has two thirds of it
	k := acquired(t, l, "x", ttl, redlock.WithAutoExtend())
	heldEverywhere(t, nodes, "x")
	nodes[0].Kill(t)
	extended.next(t)
	nodes[0].Restart(t)
	answered(t, l)
	extended.next(t)
	confirmed(t, k)
	answered(t, l)
	assert.Empty(t, nodes[0].Keys(t, "x"), "an extension never creates a key")
	_, err := l.TryAcquire(t.Context(), "x", ttl)
	require.ErrorIs(t, err, redlock.ErrHeld)
	released(t, k)
	redistest.NoKeys(t, nodes, time.Second)
}

func TestALockThatAMajorityForgetsIsLostAtOnce(t *testing.T) {
	const ttl = 45 * time.Second // an extension has two thirds of it: a busy machine takes long to restart two servers
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	k := acquired(t, l, "x", ttl, redlock.WithAutoExtend())
	heldEverywhere(t, nodes, "x")
	nodes[0].Restart(t)
	require.NoError(t, k.Context().Err(), "one node that forgets is not a majority")
	end := time.Now().Add(k.Remaining()) // or later: it may be extended once more
	nodes[2].Restart(t)

	// The next extension detects it: before the end of the validity, and without a call of the
	// holder.
	select {
	case <-k.Context().Done():
	case <-time.After(redistest.Slack * patience):
		require.Fail(t, "the context does not end")
	}
	assert.Greater(t, time.Until(end), time.Second, "noticed by the next extension, within a third of the TTL. A lock that is only noticed at its end has at least two thirds left.")
	require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLost)
	var lost *redlock.LostError
	require.ErrorAs(t, context.Cause(k.Context()), &lost)
	assert.Equal(t, redlock.LossGone, lost.Reason, "the nodes say so, and not the end of the validity")
	assert.LessOrEqual(t, k.Remaining(), time.Duration(0))

	require.ErrorIs(t, k.Release(t.Context()), redlock.ErrLost, "the work may have overlapped with that of another holder")
	require.ErrorIs(t, k.Extend(t.Context(), ttl), redlock.ErrLost)
	require.ErrorIs(t, k.Check(t.Context()), redlock.ErrLost)
	redistest.NoKeys(t, nodes, time.Second) // also the key on the third node
	released(t, acquired(t, l, "x", ttl))
	redistest.NoKeys(t, nodes, time.Second)
}

func TestCheckFindsALockThatAMajorityForgot(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	k := acquired(t, l, "x", time.Minute)
	require.NoError(t, k.Check(t.Context()))
	heldEverywhere(t, nodes, "x")
	nodes[0].Do(t, "DEL", "x")
	require.NoError(t, k.Check(t.Context()), "two nodes still hold the key")
	nodes[1].Do(t, "PEXPIRE", "x", 20_000) // as if its clock had been set forward
	require.NoError(t, k.Check(t.Context()))
	assert.Less(t, k.Remaining(), 20*time.Second, "the validity is what a majority supports")
	assert.Positive(t, k.Remaining())
	nodes[1].Do(t, "FLUSHALL")
	require.ErrorIs(t, k.Check(t.Context()), redlock.ErrLost)
	require.ErrorIs(t, context.Cause(k.Context()), redlock.ErrLost)
	redistest.NoKeys(t, nodes, time.Second)
}

func TestALockMovesToAnotherLocker(t *testing.T) {
	nodes := masters(t, 3)
	from, to := open(t, nodes), open(t, nodes)
	answered(t, from)
	answered(t, to)
	held := acquired(t, from, "x", 30*time.Second, redlock.WithAutoExtend())
	heldEverywhere(t, nodes, "x") // Detach withdraws an acquire that was not sent yet
	claim, err := held.Detach()
	require.NoError(t, err)
	nodes[2].Kill(t)
	k, err := to.Resume(t.Context(), claim, redlock.WithAutoExtend())
	require.NoError(t, err)
	assert.Equal(t, claim.Token, k.Token())
	assert.Less(t, k.Remaining(), 30*time.Second)
	require.NoError(t, k.Extend(t.Context(), time.Minute))
	assert.Greater(t, k.Remaining(), 30*time.Second)
	_, err = from.TryAcquire(t.Context(), "x", 10*time.Second)
	require.ErrorIs(t, err, redlock.ErrHeld)
	released(t, k)
	_, err = to.Resume(t.Context(), claim)
	require.ErrorIs(t, err, redlock.ErrAlreadyHeld, "the release on the dead node is pending")
	nodes[2].Restart(t)
	await(t, "the lock is free", func() bool {
		_, err := to.Resume(t.Context(), claim)
		return errors.Is(err, redlock.ErrLost)
	})
	redistest.NoKeys(t, nodes, time.Second)
}
