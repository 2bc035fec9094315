package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/internal/late"
	"github.com/quorumlock/go-redlock/redlock"
)

// pollBound bounds how long a waiter needs to find a released lock without an announcement: a
// second, and an attempt that one node does not answer.
const pollBound = time.Second + busyTimeout + 250*time.Millisecond

// waiter is an Acquire in the background, by a Locker of its own, as in another process.
type waiter struct {
	locker *redlock.Locker
	woken  chan string // the reason of each wakeup
	got    chan time.Time
	lock   *redlock.Lock
	err    error

	acquired chan struct{} // closed by the last hook of the Acquire

	waiting atomic.Int32 // how often it has found the name held since it was last woken
}

// waits starts an Acquire, and returns when it listens for releases and has found the name held once
// more after that. If the right to listen is missing it returns when the waiter waits.
func waits(t *testing.T, urls []string, nodes []*redistest.Node, name string, listens bool, opts ...redlock.Option) *waiter {
	t.Helper()
	w := &waiter{woken: make(chan string, 1000), got: make(chan time.Time, 1), acquired: make(chan struct{})}
	opts = append(opts, redlock.WithTrace(&redlock.Trace{
		Waiting: func(redlock.WaitEvent) { w.waiting.Add(1) },
		Woken: func(e redlock.WaitEvent) {
			w.waiting.Store(0)
			w.woken <- e.Reason
		},
		Acquired: func(redlock.WaitEvent) { close(w.acquired) },
	}))
	l, err := redlock.Open(urls, append([]redlock.Option{redlock.WithNodeTimeout(busyTimeout)}, opts...)...)
	require.NoError(t, err)
	w.locker = l
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
	found := int32(1)
	if listens {
		await(t, "the waiter has subscribed", func() bool {
			return !slices.ContainsFunc(nodes, func(n *redistest.Node) bool { return listeners(t, n, name) == 0 })
		})
		found = 2 // by the attempt before the subscription, and by the poll that follows it
	}
	await(t, "the waiter finds the name held", func() bool { return w.waiting.Load() >= found })
	return w
}

// listeners returns the number of subscriptions to the releases of a name.
func listeners(t testing.TB, n *redistest.Node, name string) int64 {
	t.Helper()
	reply := n.Do(t, "PUBSUB", "NUMSUB", "redlock:free:"+name).([]any)
	return reply[1].(int64)
}

// gotWithin requires that the waiter gets the lock within this time after a release.
func (w *waiter) gotWithin(t *testing.T, released time.Time, bound time.Duration) time.Duration {
	t.Helper()
	select {
	case at := <-w.got:
		assert.LessOrEqual(t, at.Sub(released), redistest.Slack*bound)
		return at.Sub(released)
	case <-time.After(patience):
		require.FailNow(t, "the waiter did not get the lock")
		return 0
	}
}

func TestWakeByAnAnnouncement(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	const rounds = 5
	announced := 0
	for range rounds {
		k := acquired(t, l, "wake", time.Minute)
		w := waits(t, redistest.URLs(nodes), nodes, "wake", true)
		for len(w.woken) > 0 {
			<-w.woken
		}
		released := time.Now()
		require.NoError(t, k.Release(t.Context()))
		t.Log("another process got it after", w.gotWithin(t, released, pollBound))
		<-w.acquired // the hooks may run later than the Acquire returns
		select {
		case by := <-w.woken:
			if by == "message" {
				announced++
			}
		default: // the attempt after its subscription was late, and got the lock
		}
		require.NoError(t, w.lock.Release(t.Context()))
	}
	t.Logf("%d of %d by an announcement", announced, rounds)
	assert.Greater(t, announced, rounds/2, "most waiters are woken by announcements, and a few by a poll")
}

// thousandWithin bounds a thousand hand-overs of a lock on a busy machine. A poll for each takes far longer.
const thousandWithin = 3 * redistest.Slack * patience

// Two Lockers with many waiters each take turns, and there is never more than one holder.
func TestWakeInTurns(t *testing.T) {
	nodes := masters(t, 3)
	var mu sync.Mutex
	var all sync.WaitGroup
	const total = 1000
	turns := make([]int, 2)
	ctx, cancel := context.WithTimeout(t.Context(), thousandWithin)
	defer cancel()
	for i := range turns {
		l := open(t, nodes, redlock.WithNodeTimeout(patience)) // every release needs a quorum
		for range 8 {
			all.Go(func() {
				for {
					k, err := l.Acquire(ctx, "turns", time.Minute)
					if err != nil {
						return
					}
					if assert.True(t, mu.TryLock(), "two holders") {
						turns[i]++
						if turns[0]+turns[1] >= total {
							cancel()
						}
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
	require.GreaterOrEqual(t, turns[0]+turns[1], total)
	assert.Greater(t, min(turns[0], turns[1]), (turns[0]+turns[1])/4)
}

// docs/dev/hazards.md H82.
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
	heldEverywhere(t, nodes, "paused")
	w := waits(t, redistest.URLs(nodes), nodes, "paused", true)
	nodes[1].Pause(t)
	defer nodes[1].Unpause(t)
	released := time.Now()
	require.NoError(t, k.Release(t.Context()))
	w.gotWithin(t, released, pollBound)
}

// Without the rights a release is still found, by a poll.
func TestWakeWithoutTheRightToPublishOrSubscribe(t *testing.T) {
	nodes := masters(t, 3)
	for _, missing := range []string{"-publish", "-subscribe", "-pubsub", "resetchannels"} {
		var urls []string
		for _, n := range nodes {
			setUser(t, n, "reset", "on", ">secret", "~*", "&*", "+@all", missing)
			urls = append(urls, "redis://app:secret@"+n.Addr())
		}
		l, err := redlock.Open(urls, redlock.WithNodeTimeout(busyTimeout))
		require.NoError(t, err)
		k := acquired(t, l, "rights", time.Minute)
		w := waits(t, urls, nodes, "rights", false)
		released := time.Now()
		require.NoError(t, k.Release(t.Context()), missing)
		t.Log(missing, w.gotWithin(t, released, pollBound))
		require.NoError(t, w.lock.Release(t.Context()))
		closeLocker(t, l)
	}
}

// A thousand waiters cost few commands, and all get the lock soon after its release.
func TestWakeAThousand(t *testing.T) {
	nodes := masters(t, 3)
	l, waiting := open(t, nodes), open(t, nodes, redlock.WithNodeTimeout(patience)) // every release needs a quorum
	k := acquired(t, l, "busy", time.Minute)
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			k, err := waiting.Acquire(t.Context(), "busy", time.Minute)
			if assert.NoError(t, err) {
				assert.NoError(t, k.Release(context.Background()))
			}
		})
	}
	await(t, "the waiters listen", func() bool {
		return !slices.ContainsFunc(nodes, func(n *redistest.Node) bool { return listeners(t, n, "busy") != 1 })
	})
	awaitAttempts(t, nodes, waiting)
	began := time.Now()
	before := lockCommands(t, nodes)
	time.Sleep(3 * time.Second)
	// Polls make no attempt, and do not query the holder. One poll may fall into the beginning of
	// the measurement.
	sent := lockCommands(t, nodes) - before
	watched := time.Since(began)
	assert.LessOrEqual(t, float64(sent), 2*watched.Seconds())
	released := time.Now()
	require.NoError(t, k.Release(t.Context()))
	all.Wait()
	t.Logf("%d commands in %v; all had the lock %v after the release", sent, watched, time.Since(released))
	assert.Less(t, time.Since(released), thousandWithin, "a poll for each of them takes far longer")
}

// awaitAttempts returns when the attempts of waiting Lockers are over: every node has executed what it was
// sent, and gets no more.
func awaitAttempts(t *testing.T, nodes []*redistest.Node, waiting ...*redlock.Locker) {
	t.Helper()
	await(t, "the first attempts are over", func() bool {
		for _, l := range waiting {
			answered(t, l)
		}
		before := lockCommands(t, nodes)
		time.Sleep(200 * time.Millisecond)
		return lockCommands(t, nodes) == before
	})
}

// Ten processes that wait for a lock, and its holder, cost each server at most 15 commands a
// second, including those inside scripts, besides the checks of its state.
func TestWakeCostsOfTenProcesses(t *testing.T) {
	late.LeaveOut(t, "it counts the commands of some seconds")
	nodes := masters(t, 3)
	holder := open(t, nodes, redlock.WithOwner("holder"))
	k := acquired(t, holder, "ten", 30*time.Second, redlock.WithAutoExtend())
	var waiting []*waiter
	var lockers []*redlock.Locker
	for range 10 {
		w := waits(t, redistest.URLs(nodes), nodes, "ten", false)
		waiting, lockers = append(waiting, w), append(lockers, w.locker)
	}
	await(t, "all waiters listen", func() bool {
		return !slices.ContainsFunc(nodes, func(n *redistest.Node) bool { return listeners(t, n, "ten") < int64(len(waiting)) })
	})
	awaitAttempts(t, nodes, lockers...)
	began := time.Now()
	before := make([]int, len(nodes))
	for i, n := range nodes {
		before[i] = stat(t, n, "total_commands_processed")
	}
	time.Sleep(4 * time.Second)
	for i, n := range nodes {
		sent := stat(t, n, "total_commands_processed") - before[i]
		watched := time.Since(began)
		t.Logf("%d commands in %v", sent, watched)
		// Each Locker checks its server every ten seconds. All these checks may fall into the four.
		assert.LessOrEqual(t, float64(sent), 15*watched.Seconds()+float64(1+len(waiting)))
	}
	require.NoError(t, k.Release(t.Context()))
	got := make(chan *waiter, len(waiting))
	for _, w := range waiting {
		go func() {
			select {
			case <-w.got:
				got <- w
			case <-t.Context().Done():
			}
		}()
	}
	for range waiting { // one after the other
		select {
		case w := <-got:
			require.NoError(t, w.lock.Release(t.Context()))
		case <-time.After(redistest.Slack * patience):
			require.FailNow(t, "the next waiter did not get the lock")
		}
	}
}

// stat reads a number from INFO stats.
func stat(t testing.TB, n *redistest.Node, field string) (value int) {
	t.Helper()
	text, ok := n.Do(t, "INFO", "stats").([]byte)
	require.True(t, ok)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			_, err := fmt.Sscanf(rest, "%d", &value)
			require.NoError(t, err)
		}
	}
	return value
}

// A value of 8 MiB under the lock's name is never downloaded, and the waiter waits.
func TestWakeBehindALongValue(t *testing.T) {
	nodes := masters(t, 3)
	const size = 8 << 20 // undos have a script read it: a longer one can take a busy server seconds
	for _, n := range nodes {
		n.Do(t, "SETRANGE", "long", size-1, "x")
	}
	before := sentBytes(t, nodes)
	l := open(t, nodes)
	_, err := l.TryAcquire(t.Context(), "long", time.Minute)
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.NotErrorIs(t, err, redlock.ErrForeignKey)
	w := waits(t, redistest.URLs(nodes), nodes, "long", true)
	time.Sleep(time.Second)
	assert.Less(t, sentBytes(t, nodes)-before, size/30)
	freed := time.Now()
	for _, n := range nodes {
		n.Do(t, "DEL", "long")
	}
	w.gotWithin(t, freed, pollBound)
	require.NoError(t, w.lock.Release(t.Context()))
}

// sentBytes returns how many bytes servers have sent.
func sentBytes(t testing.TB, nodes []*redistest.Node) (sum int) {
	t.Helper()
	for _, n := range nodes {
		sum += stat(t, n, "total_net_output_bytes")
	}
	return sum
}

// lockCommands returns how many commands for locks servers have run.
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
