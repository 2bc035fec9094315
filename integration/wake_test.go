package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/pool/wire"
	"github.com/quorumlock/go-redlock/redlock"
)

// pollBound is how long after its release a lock is found at the latest, when nothing is heard of it: a second, and what an attempt takes
// that a node does not answer.
const pollBound = time.Second + 500*time.Millisecond + 250*time.Millisecond

// waiter is an Acquire in the background, by a Locker of its own as another process would have.
type waiter struct {
	woken chan string // why it went on, each time
	got   chan time.Time
	lock  *redlock.Lock
	err   error
}

// waits has a contender wait for a name, and returns when it listens for releases, unless it can't.
func waits(t *testing.T, urls []string, nodes []*redistest.Node, name string, listens bool, opts ...redlock.Option) *waiter {
	t.Helper()
	w := &waiter{woken: make(chan string, 1000), got: make(chan time.Time, 1)}
	opts = append(opts, redlock.WithTrace(&redlock.Trace{Woken: func(e redlock.WokenEvent) { w.woken <- e.By }}))
	l, err := redlock.Open(urls, opts...)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w.lock, w.err = l.Acquire(ctx, name, time.Minute); w.err == nil {
			w.got <- time.Now()
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if w.lock != nil {
			_ = w.lock.Release(context.Background())
		}
		closeLocker(t, l)
	})
	if listens {
		await(t, "it has subscribed", func() bool {
			return !slices.ContainsFunc(nodes, func(n *redistest.Node) bool { return listeners(t, n, name) == 0 })
		})
	}
	time.Sleep(50 * time.Millisecond) // and made the attempt that follows
	return w
}

// listeners counts the subscriptions to a name's releases.
func listeners(t testing.TB, n *redistest.Node, name string) int64 {
	t.Helper()
	reply := n.Do(t, "PUBSUB", "NUMSUB", wire.FreePrefix+name).([]any)
	return reply[1].(int64)
}

// gotWithin requires that it has the lock at most so long after a release.
func (w *waiter) gotWithin(t *testing.T, released time.Time, bound time.Duration) time.Duration {
	t.Helper()
	select {
	case at := <-w.got:
		assert.LessOrEqual(t, at.Sub(released), redistest.Slack*bound)
		return at.Sub(released)
	case <-time.After(patience):
		require.FailNow(t, "it never got the lock")
		return 0
	}
}

func TestWakeByAnAnnouncement(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	for range 5 {
		k := acquired(t, l, "wake", time.Minute)
		w := waits(t, redistest.URLs(nodes), nodes, "wake", true)
		for len(w.woken) > 0 {
			<-w.woken
		}
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		t.Log("had by another process after", w.gotWithin(t, released, pollBound))
		require.Equal(t, "message", <-w.woken)
		require.NoError(t, w.lock.Release(t.Context()))
	}
}

// Two Lockers take turns, many at home with each, and every holder is the only one.
func TestWakeInTurns(t *testing.T) {
	nodes := masters(t, 3)
	var mu sync.Mutex
	var all sync.WaitGroup
	turns := make([]int, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	for i := range turns {
		l := open(t, nodes)
		for range 8 {
			all.Go(func() {
				for {
					k, err := l.Acquire(ctx, "turns", time.Minute)
					if err != nil {
						return
					}
					if assert.True(t, mu.TryLock(), "two holders") {
						turns[i]++
						time.Sleep(time.Millisecond)
						mu.Unlock()
					}
					assert.NoError(t, k.Release(context.Background()))
				}
			})
		}
	}
	all.Wait()
	t.Log("turns", turns)
	assert.Greater(t, min(turns[0], turns[1]), (turns[0]+turns[1])/4)
}

// docs/hazards.md H82.
func TestWakeAfterSubscriptionsWereKilled(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	for _, before := range []time.Duration{0, 5 * time.Millisecond, 300 * time.Millisecond} {
		k := acquired(t, l, "killed", time.Minute)
		w := waits(t, redistest.URLs(nodes), nodes, "killed", true)
		for _, n := range nodes {
			n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		time.Sleep(before)
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		w.gotWithin(t, released, pollBound)
		require.NoError(t, w.lock.Release(t.Context()))
	}
}

func TestWakeWhileANodeIsPaused(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	k := acquired(t, l, "paused", time.Minute)
	w := waits(t, redistest.URLs(nodes), nodes, "paused", true)
	nodes[1].Pause(t)
	defer nodes[1].Unpause(t)
	released := time.Now()
	require.NoError(t, k.Release(t.Context()))
	w.gotWithin(t, released, pollBound)
}

// Where the rights are missing a release is found all the same.
func TestWakeWithoutTheRightToPublishOrSubscribe(t *testing.T) {
	nodes := masters(t, 3)
	for _, missing := range []string{"-publish", "-subscribe", "-pubsub", "resetchannels"} {
		var urls []string
		for _, n := range nodes {
			setUser(t, n, "reset", "on", ">secret", "~*", "&*", "+@all", missing)
			urls = append(urls, "redis://app:secret@"+n.Addr())
		}
		l, err := redlock.Open(urls)
		require.NoError(t, err)
		k := acquired(t, l, "rights", time.Minute)
		w := waits(t, urls, nodes, "rights", false)
		time.Sleep(200 * time.Millisecond)
		released := time.Now()
		require.NoError(t, k.Release(t.Context()), missing)
		t.Log(missing, w.gotWithin(t, released, pollBound))
		require.NoError(t, w.lock.Release(t.Context()))
		closeLocker(t, l)
	}
}

// A thousand who wait cost next to nothing, and all have the lock soon after its release.
func TestWakeAThousand(t *testing.T) {
	nodes := masters(t, 3)
	l, crowd := open(t, nodes), open(t, nodes)
	k := acquired(t, l, "crowd", time.Minute)
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			k, err := crowd.Acquire(t.Context(), "crowd", time.Minute)
			if assert.NoError(t, err) {
				assert.NoError(t, k.Release(context.Background()))
			}
		})
	}
	await(t, "it listens", func() bool { return listeners(t, nodes[0], "crowd") == 1 })
	time.Sleep(200 * time.Millisecond)
	const watched = 3 * time.Second
	before := lockCommands(t, nodes)
	time.Sleep(watched)
	// A poll in half a second at the most: three SETs, and three questions who it is.
	sent := lockCommands(t, nodes) - before
	assert.LessOrEqual(t, sent, 6*int(watched/(500*time.Millisecond)+1))
	released := time.Now()
	require.NoError(t, k.Release(t.Context()))
	all.Wait()
	t.Logf("%d commands in %v; all through %v after the release", sent, watched, time.Since(released))
	assert.Less(t, time.Since(released), redistest.Slack*5*time.Second)
}

// lockCommands counts what servers were asked about locks.
func lockCommands(t testing.TB, nodes []*redistest.Node) (sum int) {
	t.Helper()
	for _, n := range nodes {
		text, ok := n.Do(t, "INFO", "commandstats").([]byte)
		require.True(t, ok)
		for line := range strings.Lines(string(text)) {
			var calls int
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":")
			if name != "set" && name != "evalsha" {
				continue
			}
			_, err := fmt.Sscanf(rest, "calls=%d", &calls)
			require.NoError(t, err)
			sum += calls
		}
	}
	return sum
}
