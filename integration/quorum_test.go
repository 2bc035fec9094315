package integration

import (
	"context"
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

// watchedTimeout is short, because attempts without a quorum wait for it.
const watchedTimeout = 1500 * time.Millisecond

// watched is a Locker whose attempts the test can count.
func watched(t *testing.T, nodes []*redistest.Node) (l *redlock.Locker, attempts <-chan redlock.RoundEvent) {
	t.Helper()
	seen := make(chan redlock.RoundEvent, 1)
	return open(t, nodes, redlock.WithNodeTimeout(watchedTimeout), redlock.WithTrace(&redlock.Trace{Attempt: func(e redlock.RoundEvent) {
		select {
		case seen <- e:
		default:
		}
	}})), seen
}

// waiting is the result of an Acquire in the background.
type waiting struct {
	lock *redlock.Lock
	err  error
	at   time.Time
}

func acquireLater(ctx context.Context, l *redlock.Locker, name string) <-chan waiting {
	done := make(chan waiting, 1)
	go func() {
		k, err := l.Acquire(ctx, name, 10*time.Second)
		done <- waiting{k, err, time.Now()}
	}()
	return done
}

func TestALostQuorumIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		strike, heal func(*redistest.Node, testing.TB)
		outcomes     []redlock.Outcome // of a node in this state; it depends on when its connection is found dead
		timeout      bool              // the error is the node's timeout
	}{
		"by two nodes that are dead": {
			(*redistest.Node).Kill, (*redistest.Node).Restart,
			[]redlock.Outcome{redlock.OutcomeFailed, redlock.OutcomeUnknown},
			false,
		},
		"by two nodes that are frozen": {
			(*redistest.Node).Pause, (*redistest.Node).Unpause,
			[]redlock.Outcome{redlock.OutcomeUnknown},
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := masters(t, 3)
			l, attempts := watched(t, nodes)
			answered(t, l)
			healthy := func() bool {
				began := time.Now()
				err := l.Healthy(t.Context())
				if err != nil {
					require.GreaterOrEqual(t, time.Since(began), watchedTimeout, "%v", err)
				}
				return err == nil
			}
			var err error
			await(t, "the second node answers in time", func() bool {
				await(t, "there is a quorum", healthy)
				c.strike(nodes[0], t)
				c.strike(nodes[2], t)
				_, err = l.TryAcquire(t.Context(), "x", 10*time.Second)
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				second := votesOf(t, err)[1]
				// Dead nodes decide the attempt at once, and the second is not awaited.
				if !c.timeout || second.Outcome == redlock.OutcomeGranted {
					return true
				}
				require.ErrorIs(t, second.Err, redlock.ErrNodeTimeout, "the machine stopped")
				// Nodes that are frozen for longer are silent, and an undo comes late. So the nodes are healed for the next try.
				c.heal(nodes[0], t)
				c.heal(nodes[2], t)
				answered(t, l)
				redistest.NoKeys(t, nodes, time.Second)
				return false
			})
			assert.NotErrorIs(t, err, redlock.ErrHeld)
			assert.NotErrorIs(t, err, context.DeadlineExceeded, "DeadlineExceeded is for the caller's deadline")
			votes := votesOf(t, err)
			require.Len(t, votes, 3)
			for i, n := range nodes {
				assert.Contains(t, err.Error(), n.Addr(), "the message names every node")
				assert.Contains(t, votes[i].Node, n.Addr())
			}
			for _, v := range []redlock.Vote{votes[0], votes[2]} {
				assert.Contains(t, c.outcomes, v.Outcome, "%v", v)
				assert.Error(t, v.Err, "%v", v)
				if c.timeout {
					assert.ErrorIs(t, v.Err, redlock.ErrNodeTimeout)
				}
			}
			redistest.NoKeys(t, nodes[1:2], time.Second)

			err = l.Healthy(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			assert.Len(t, votesOf(t, err), 3)

			started := time.Now()
			_, err = l.Acquire(t.Context(), "x", 10*time.Second, redlock.WithFailFast())
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "TryAcquire must not wait")
			assert.Less(t, time.Since(started), watchedTimeout+busyTimeout)

			await(t, "an attempt begins in time", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				_, err = l.Acquire(ctx, "x", 10*time.Second)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				return !strings.Contains(err.Error(), "no attempt was made")
			})
			require.ErrorIs(t, err, redlock.ErrNoQuorum, "the reason of the failed attempts")

			done := acquireLater(t.Context(), l, "x")
			for len(attempts) > 0 {
				<-attempts
			}
			for range 3 {
				require.ErrorIs(t, (<-attempts).Err, redlock.ErrNoQuorum)
			}
			require.Empty(t, done)
			c.heal(nodes[2], t)
			got := <-done
			require.NoError(t, got.err, "a waiting Acquire succeeds when there is a quorum again")
			await(t, "there is a quorum", healthy)
			if err := got.lock.Release(t.Context()); err != nil {
				require.ErrorIs(t, err, redlock.ErrNoQuorum, "a busy machine may exceed the node timeout")
			}

			c.heal(nodes[0], t)
			answered(t, l)
			redistest.NoKeys(t, nodes, time.Second)
		})
	}
}

func TestOneOfThreeNodesIsNotNeeded(t *testing.T) {
	nodes := masters(t, 3)
	l := open(t, nodes)
	answered(t, l)
	nodes[1].Kill(t)
	rounds := 50
	if late.On() {
		rounds = 10 // each may need a late node twice
	}
	for range rounds {
		k, err := l.TryAcquire(t.Context(), "x", 10*time.Second)
		require.NoError(t, err, "two of three nodes suffice, whatever the third does")
		released(t, k)
	}
	require.NoError(t, l.Healthy(t.Context()))
	nodes[1].Restart(t)
	answered(t, l)
	redistest.NoKeys(t, nodes, time.Second)
}

func TestTheFirstAcquireAfterOpenNeedsNoWarmUp(t *testing.T) {
	nodes := masters(t, 3)
	for range 10 {
		l, err := redlock.Open(redistest.URLs(nodes), redlock.WithNodeTimeout(busyTimeout))
		require.NoError(t, err)
		k, err := l.TryAcquire(t.Context(), "x", 10*time.Second)
		require.NoError(t, err)
		released(t, k)
		closeLocker(t, l)
	}
	redistest.NoKeys(t, nodes, 0)
}

func TestContendersMakeProgressWhileANodeIsFrozen(t *testing.T) {
	late.LeaveOut(t, "it counts holds in a time, and one of the two nodes that are left would be late for each")
	nodes := masters(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var holds atomic.Int64
	for range 4 {
		l := open(t, nodes, redlock.WithNodeTimeout(5*time.Second)) // each is like a process: they meet only on the nodes
		answered(t, l)
		for range 2 {
			all.Go(func() {
				for ctx.Err() == nil {
					if k, err := l.Acquire(ctx, "x", 10*time.Second); err == nil {
						holds.Add(1)
						_ = k.Release(ctx)
					}
					time.Sleep(5 * time.Millisecond) // gives other contenders a chance
				}
			})
		}
	}
	nodes[0].Pause(t)
	holds.Store(0)
	// Hundreds a second are usual. If two contenders have one vote each, neither may wait for the
	// third node to break the tie, which would take its node timeout each time.
	awaitFor(t, 10*time.Second, "the lock was held 50 times", func() bool { return holds.Load() >= 50 })
	nodes[0].Unpause(t)
	stop()
	all.Wait()
	redistest.NoKeys(t, nodes, time.Second)
}
