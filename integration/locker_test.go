//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// openEnv opens a Locker with the settings of the environment, which is closed when the test ends.
func openEnv(t *testing.T, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.OpenEnv(append([]redlock.Option{redlock.WithNodeTimeout(busyTimeout)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { closeLocker(t, l) })
	return l
}

func TestALockerAndTheCommandHaveTheSettingsOfTheEnvironment(t *testing.T) {
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	t.Setenv("REDLOCK_NODES", strings.Join(redistest.URLs(nodes), ","))
	t.Setenv("REDLOCK_NODES_FILE", "")
	t.Setenv("REDLOCK_PREFIX", "app/")
	t.Setenv("REDLOCK_GUARD", "")
	l := openEnv(t, redlock.WithOwner("me"))
	answered(t, l)
	k := acquired(t, l, "job", time.Minute)
	heldEverywhere(t, nodes, "app/job")
	status, out, said := c.served(t, "status", "job")
	assert.Zero(t, status, said)
	assert.Contains(t, out, `job is held by "me"`)
	released(t, k)
	redistest.NoKeys(t, nodes, time.Second)

	file := filepath.Join(t.TempDir(), "nodes")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(redistest.URLs(nodes), "\n")), 0o600))
	t.Setenv("REDLOCK_NODES", "")
	t.Setenv("REDLOCK_NODES_FILE", file)
	t.Setenv("REDLOCK_GUARD", guardTTL.String())
	guarded := openEnv(t)
	mustAdmit(t, guarded, nodes)
	released(t, acquired(t, guarded, "job", guardTTL))
	_, err := guarded.Acquire(t.Context(), "job", 2*guardTTL)
	require.ErrorIs(t, err, redlock.ErrInvalid, "the guard bounds the TTL")
	t.Setenv("REDLOCK_GUARD", "")
	refusedIn(t, openEnv(t), "this client has no restart guard")
	redistest.NoKeys(t, nodes, time.Second)
}

// requireWaited checks the error of a wait that was over: it has the reason, and is not taken for the
// end of the caller's context.
func requireWaited(t *testing.T, err, reason error, wait time.Duration) {
	t.Helper()
	require.ErrorIs(t, err, reason)
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "waited for "+wait.String())
}

// sawHolder reports whether an Acquire has seen the holder. A machine that stops for the whole wait has
// no quorum instead.
func sawHolder(t *testing.T, err error) bool {
	t.Helper()
	if errors.Is(err, redlock.ErrHeld) {
		return true
	}
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	return false
}

func TestABoundedWaitEndsWithItsReason(t *testing.T) {
	const wait = 3 * time.Second // longer than the node timeout, so frozen nodes are known to be silent
	nodes := masters(t, 3)
	holder, l := open(t, nodes), open(t, nodes, redlock.WithNodeTimeout(2*time.Second))
	answered(t, holder)
	answered(t, l)

	k := acquired(t, holder, "x", time.Minute)
	var began time.Time
	var err error
	await(t, "nodes answer in the wait", func() bool {
		began = time.Now()
		_, err = l.Acquire(t.Context(), "x", 10*time.Second, redlock.WithWait(wait))
		return sawHolder(t, err)
	})
	requireWaited(t, err, redlock.ErrHeld, wait)
	assert.GreaterOrEqual(t, time.Since(began), wait)
	released(t, k)
	k, err = l.Acquire(t.Context(), "x", 10*time.Second, redlock.WithWait(patience))
	require.NoError(t, err, "the lock is free")
	releasedOrLate(t, k)

	nodes[0].Pause(t)
	nodes[2].Pause(t)
	_, err = l.Acquire(t.Context(), "y", 10*time.Second, redlock.WithWait(wait))
	nodes[0].Unpause(t)
	nodes[2].Unpause(t)
	requireWaited(t, err, redlock.ErrNoQuorum, wait)
	assert.NotErrorIs(t, err, redlock.ErrHeld)
	redistest.NoKeys(t, nodes, time.Second)
}

func TestADefaultWaitBoundsAnAcquireUnlessTheCallSwitchesItOff(t *testing.T) {
	const wait = time.Second
	nodes := masters(t, 3)
	holder, l := open(t, nodes), open(t, nodes, redlock.WithDefaults(redlock.WithWait(wait)))
	answered(t, holder)
	answered(t, l)
	k := acquired(t, holder, "x", time.Minute)
	var err error
	await(t, "nodes answer in the wait", func() bool {
		_, err = l.Acquire(t.Context(), "x", 10*time.Second)
		return sawHolder(t, err)
	})
	requireWaited(t, err, redlock.ErrHeld, wait)

	unbounded := make(chan error, 1)
	began := time.Now()
	go func() {
		k, err := l.Acquire(t.Context(), "x", 10*time.Second, redlock.Without(redlock.WithWait(wait)))
		if err == nil {
			err = k.Release(t.Context())
		}
		unbounded <- err
	}()
	select {
	case err := <-unbounded:
		require.FailNow(t, "the call did not wait", "after %v: %v", time.Since(began), err)
	case <-time.After(2 * wait):
	}
	released(t, k)
	require.NoError(t, <-unbounded)
	redistest.NoKeys(t, nodes, time.Second)
}

// leader is one term of Lead.
type leader struct {
	name string
	ctx  context.Context
}

func TestALeaderOutlivesARestartOfANodeAndTheNextOneFollowsIt(t *testing.T) {
	const ttl = 24 * time.Second // an extension has two thirds of it
	nodes := masters(t, 3)
	elected := make(chan leader, 10)
	var leading atomic.Int32
	campaign := func(name string) (shutDown func()) {
		l := open(t, nodes)
		answered(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- l.Lead(ctx, "x", ttl, func(ctx context.Context, _ *redlock.Lock) error {
				assert.EqualValues(t, 1, leading.Add(1), "leaders")
				defer leading.Add(-1)
				elected <- leader{name, ctx}
				<-ctx.Done()
				return nil
			})
		}()
		return sync.OnceFunc(func() {
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
		})
	}
	next := func() leader {
		t.Helper()
		select {
		case one := <-elected:
			return one
		case <-time.After(redistest.Slack * patience):
			require.FailNow(t, "no leader")
			return leader{}
		}
	}
	shutDownA := campaign("a")
	defer shutDownA()
	first := next()
	require.Equal(t, "a", first.name)
	heldEverywhere(t, nodes, "x") // by a, before b has votes
	shutDownB := campaign("b")
	defer shutDownB()

	nodes[0].Restart(t) // without the key
	left := func() int64 {
		ms, err := redis.Int64(nodes[1].Do(t, "PTTL", "x"), nil)
		require.NoError(t, err)
		return ms
	}
	before := left()
	await(t, "the leader's lock is extended", func() bool {
		was := before
		before = left()
		return before > was
	})
	require.NoError(t, first.ctx.Err())
	require.Empty(t, elected)

	shutDownA()
	second := next()
	require.Equal(t, "b", second.name)
	require.NoError(t, second.ctx.Err())
	shutDownB()
	redistest.NoKeys(t, nodes, time.Second)
}

func TestALockerListsTheLocksThatItHolds(t *testing.T) {
	nodes := masters(t, 3)
	l, other := open(t, nodes, redlock.WithFencing()), open(t, nodes)
	answered(t, l)
	answered(t, other)
	assert.Empty(t, l.Held())
	began := time.Now()
	first := acquired(t, l, "x", time.Hour, redlock.WithAutoExtend()) // it is not extended meanwhile
	second, err := l.AcquireAll(t.Context(), []string{"z", "y"}, 30*time.Second)
	require.NoError(t, err)
	elsewhere := acquired(t, other, "elsewhere", time.Minute)

	held := l.Held()
	require.Len(t, held, 2)
	for i, k := range []*redlock.Lock{first, second} {
		assert.Equal(t, k.Names(), held[i].Names)
		assert.Equal(t, k.ID(), held[i].ID)
		assert.Equal(t, k.Fence(), held[i].Fence)
		assert.Positive(t, held[i].Fence)
		assert.WithinRange(t, held[i].Since, began.Add(-time.Second), time.Now().Add(time.Second))
		assert.GreaterOrEqual(t, held[i].Remaining, k.Remaining())
	}
	assert.Equal(t, []string{"y", "z"}, held[1].Names)
	assert.True(t, held[0].AutoExtend)
	assert.False(t, held[1].AutoExtend)

	// A lock that the nodes forgot is listed until the Locker detects it.
	heldEverywhere(t, nodes, "y")
	for _, n := range nodes[:2] {
		n.Do(t, "DEL", "y", "z")
	}
	assert.Len(t, l.Held(), 2)
	require.ErrorIs(t, second.Check(t.Context()), redlock.ErrLost)
	held = l.Held()
	require.Len(t, held, 1)
	assert.Equal(t, first.ID(), held[0].ID)
	released(t, first)
	assert.Empty(t, l.Held())
	released(t, elsewhere)
	redistest.NoKeys(t, nodes, time.Second)
}

func TestABoundContextEndsWhenAMajorityForgetsTheLock(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	k := acquired(t, l, "x", time.Minute)
	heldEverywhere(t, nodes, "x")
	request, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx, release := k.Bind(request)
	defer release()

	nodes[0].Do(t, "FLUSHALL")
	require.NoError(t, k.Check(t.Context()))
	require.NoError(t, ctx.Err(), "two nodes still hold the key")
	nodes[2].Do(t, "FLUSHALL")
	require.ErrorIs(t, k.Check(t.Context()), redlock.ErrLost)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
	require.NoError(t, request.Err(), "the caller's context continues")
	redistest.NoKeys(t, nodes, time.Second)
}

// The cron of the second machine starts the job while the first machine runs it, and again when it has
// ended.
func TestTheCommandSkipsAJobForItsMinimumHoldOnRealServers(t *testing.T) {
	const minHold = 15 * time.Second
	nodes := masters(t, 3)
	c := buildCommand(t, nodes)
	run := []string{"run", "--ttl", "24s", "--min-hold", minHold.String(), "--skip-status", "0", "--wait"}
	var began time.Time
	// skipped reports whether the command was over before the minimum hold. Then it must not have run the job.
	skipped := func(job string) bool {
		t.Helper()
		status, out, said := c.served(t, append(words(run, "0", job), "--", "echo", "must not run")...)
		if time.Since(began) >= minHold {
			return false
		}
		assert.Zero(t, status, said)
		assert.Empty(t, out)
		assert.Empty(t, said, "cron would mail it")
		return true
	}
	job, inTime := "", false
	for tries := 1; !inTime; tries++ {
		require.LessOrEqual(t, tries, 3, "the machine was too slow each time")
		job = fmt.Sprint("job", tries)
		began = time.Now()
		first := c.start(t, append(words(run, "30s", job), holdOn...)...) // it is free: a wait is for a quorum
		first.line(t)
		heldEverywhere(t, nodes, job)
		inTime = skipped(job)
		require.NoError(t, first.in.Close())
		status, _ := first.exit(t)
		require.Zero(t, status, "%s", &first.stderr)
		inTime = inTime && skipped(job)
	}

	// When the minimum hold is over, a waiter gets the name.
	status, out, said := c.call(t, append(words(run, "1m", job), "--", "echo", "runs")...)
	assert.Zero(t, status, said)
	assert.Equal(t, "runs\n", out)
	assert.GreaterOrEqual(t, time.Since(began), minHold)
	for _, n := range nodes {
		n.Do(t, "FLUSHALL") // the last command's minimum hold
	}
}
