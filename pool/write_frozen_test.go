package pool

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/pipenet"
)

// stuff fills the connection to a frozen master until the writer is stuck in a write.
func stuff(n *Node) *call {
	c := inspecting(strings.Repeat("x", 2*pipenet.Buffer)).On(n)
	synctest.Wait()
	return c
}

// docs/dev/hazards.md H103.
func TestSubmitNeverWaitsForAFrozenNode(t *testing.T) {
	const callers, each, queue = 512, 10, 1000
	inBubble(t, func(c *Config) { c.Queue = queue }, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		began := time.Now()
		var full, open atomic.Int64
		var calls sync.Map
		var g sync.WaitGroup
		name := strings.Repeat("n", 4096)
		for i := range callers {
			g.Go(func() {
				for j := range each {
					c := acquiring(fmt.Sprint(i, j), longTTL, name).On(n)
					if c.Pending() {
						open.Add(1)
						calls.Store(c, nil)
						continue
					}
					full.Add(1)
					r := <-c.Answers
					if !errors.Is(r.Err, ErrQueueFull) || !r.NotSent || r.Outcome != command.Failed {
						t.Error(r)
					}
				}
			})
		}
		g.Wait()
		require.Zero(t, time.Since(began), "nobody waited")
		synctest.Wait()
		require.LessOrEqual(t, n.Stats().Queued, queue)
		// All that is neither queued nor refused is in the one write that is stuck.
		require.LessOrEqual(t, open.Load(), int64(queue+maxBatch+2*pipenet.Buffer/len(name)))
		require.Equal(t, int64(callers*each), full.Load()+open.Load())

		undo := releasing("0 0", name).On(n)
		require.True(t, undo.Pending(), "an undo is taken also when the queue is full")

		m.Unfreeze()
		granted := 0
		calls.Range(func(c, _ any) bool {
			switch r := c.(*call).Reply(t); r.Outcome {
			case command.Granted:
				granted++
			default:
				require.Equal(t, command.Refused, r.Outcome, "all are for one key, and none is lost: %v", r.Err)
			}
			return true
		})
		require.Equal(t, 1, granted)
		undo.Reply(t)
		require.Zero(t, n.Stats().Queued)
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// A batch is also bounded in bytes, because it is in memory twice.
func TestAFrozenNodeKeepsNoMoreThanABatchInItsBuffer(t *testing.T) {
	const most = 1 << 20 // not maxBatchBytes: the claim is a megabyte
	var largest atomic.Int64
	measured := func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &measuredConn{conn, &largest}, err
		}
	}
	inBubble(t, measured, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		first := stuff(n)
		name := strings.Repeat("n", 100_000)
		var calls []*call
		for range 60 {
			calls = append(calls, inspecting(name).On(n))
		}
		synctest.Wait()
		require.Equal(t, len(calls), n.Stats().Queued, "they wait where they can be given up")
		require.Less(t, largest.Load(), int64(most))
		m.Unfreeze()
		first.Reply(t)
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		synctest.Wait()
		require.Greater(t, largest.Load(), int64(most/3), "what waits goes out together")
		require.LessOrEqual(t, largest.Load(), int64(most))
		require.GreaterOrEqual(t, n.Stats().Writes, int64(6))
	})
}

// measuredConn records the largest write.
type measuredConn struct {
	net.Conn
	largest *atomic.Int64
}

func (c *measuredConn) Write(p []byte) (int, error) {
	c.largest.Store(max(c.largest.Load(), int64(len(p))))
	return c.Conn.Write(p)
}

// Only the writer gets stuck in a write to a real socket. What the socket does not accept follows
// when the peer is healthy again, and nothing between is lost.
func TestNoCallerIsStuckInAWriteToAFrozenPeer(t *testing.T) {
	for _, network := range []string{"tcp", "unix", "TLS"} {
		for name, size := range map[string]int{"small": 10, "medium": 4000, "large": 100_000, "beyond every buffer": 16 << 20} {
			t.Run(network+"/"+name, func(t *testing.T) {
				stuckIn(t, network, strings.Repeat("x", size))
			})
		}
	}
}

func stuckIn(t *testing.T, network, key string) {
	t.Helper()
	mute := make(chan struct{})
	frozen := frozenAt(mute)
	cfg := unhurried(Config{Network: network, Queue: 200_000})
	switch network {
	case "unix":
		cfg.Address = t.TempDir() + "/s"
		frozen.listen(t, network, cfg.Address)
	case "tcp":
		cfg.Address = frozen.listen(t, network, "127.0.0.1:0").Addr().String()
	case "TLS":
		a := newAuthority(t)
		cfg.Network, cfg.TLS = "tcp", a.trusted
		cfg.Address = a.before(t, frozen.listen(t, "tcp", "127.0.0.1:0").Addr().String()).String()
	}
	n, err := Open(cfg)
	require.NoError(t, err)
	defer n.Close()
	require.Equal(t, command.Granted, pinging().Outcome(t, n))
	done := make(chan []*call, 1) // the goroutine ends also if the test has failed
	go func() {
		var calls []*call
		for range max(1, min(5000, 12<<20/len(key))) {
			calls = append(calls, inspecting(key).On(n))
		}
		done <- calls
	}()
	select {
	case calls := <-done:
		close(mute)
		for _, c := range calls {
			require.Equal(t, command.Granted, c.Reply(t).Outcome)
		}
		require.Equal(t, int64(1), n.Stats().Dials)
	case <-time.After(time.Minute):
		close(mute)
		require.FailNow(t, "stuck")
	}
}

func TestASilentConnectionIsClosedAndAllOnItIsUnknown(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		began := time.Now()
		calls := oneOfEach()
		delete(calls, "release") // undos are kept
		delete(calls, "shorten")
		for _, c := range calls {
			c.On(n)
		}
		for name, c := range calls {
			r := c.Reply(t)
			require.Equal(t, command.Unknown, r.Outcome, name)
			require.ErrorIs(t, r.Err, ErrSilent)
			require.False(t, r.NotSent)
		}
		require.GreaterOrEqual(t, time.Since(began), 5*time.Second)
		require.LessOrEqual(t, time.Since(began), 6250*time.Millisecond)

		// From now on no caller waits for a silent node.
		for range 100 {
			began = time.Now()
			r := acquiring("B", longTTL, "l").On(n).Reply(t)
			requireUnsent(t, r)
			require.Zero(t, time.Since(began))
			if !errors.Is(r.Err, ErrSilent) {
				require.ErrorContains(t, r.Err, "pool: the handshake took longer than the dial timeout of 5s")
			}
			time.Sleep(time.Second)
		}
		require.ErrorContains(t, acquiring("B", longTTL, "l").On(n).Reply(t).Err, "the handshake took longer")
		require.Zero(t, n.Stats().Connected)

		m.Unfreeze()
		time.Sleep(6 * time.Second)
		require.Equal(t, command.Granted, acquiring("C", longTTL, "l").Outcome(t, n))
	})
}

// An unanswered command does not mean silence: as long as bytes arrive the connection is kept.
func TestASlowNodeIsNotTakenForASilentOne(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		m.SetDelay(4900 * time.Millisecond)
		synctest.Wait()
		time.Sleep(5 * time.Second)
		for range 3 {
			var calls []*call
			for range 20 {
				calls = append(calls, pinging().On(n))
				time.Sleep(time.Second)
			}
			for _, c := range calls {
				require.Equal(t, command.Granted, c.Reply(t).Outcome)
			}
			time.Sleep(time.Minute)
		}
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

// The watchdog's timer runs only while an answer is due.
func TestAnIdleConnectionIsNotTakenForASilentOne(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *fakeredis.Master, n *Node) {
		for range 10 {
			require.Equal(t, command.Granted, pinging().Outcome(t, n))
			time.Sleep(time.Hour)
		}
		require.Equal(t, int64(1), n.Stats().Dials)
	})
}

func TestACommandPastItsNotAfterInstantIsDroppedUnsent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		stuck := stuff(n)
		stale := acquiring("stale", longTTL, "k").Within(n, time.Second).On(n)
		fresh := acquiring("fresh", longTTL, "k").Within(n, 3*time.Second).On(n)
		for range 2 * maxBatch { // more than a batch of cancelled commands
			acquiring("stale", longTTL, "k").Within(n, time.Second).On(n)
		}
		last := acquiring("last", longTTL, "l").On(n)
		time.Sleep(time.Second)
		m.Unfreeze()
		stuck.Reply(t)
		r := stale.Reply(t)
		requireUnsent(t, r)
		require.ErrorIs(t, r.Err, command.ErrExpired)
		require.Equal(t, command.Granted, fresh.Reply(t).Outcome)
		require.Equal(t, command.Granted, last.Reply(t).Outcome)
		require.Equal(t, 2, count(m, "SET"))
	})
}

func TestACommandThatWasGivenUpIsNeverWritten(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
		require.Equal(t, command.Granted, pinging().Outcome(t, n))
		m.Freeze()
		stuck := stuff(n)
		given, other := acquiring("A", longTTL, "k").On(n), acquiring("B", longTTL, "k").On(n)
		require.True(t, given.Cancel(), "unsent")
		m.Unfreeze()
		stuck.Reply(t)
		r := given.Reply(t)
		requireUnsent(t, r)
		require.ErrorIs(t, r.Err, command.ErrGivenUp)
		require.Equal(t, command.Granted, other.Reply(t).Outcome)
		require.Equal(t, 1, count(m, "SET"))

		done := acquiring("C", longTTL, "l")
		require.Equal(t, command.Granted, done.Outcome(t, n))
		require.False(t, done.Cancel())
	})
}

// docs/dev/hazards.md H1, H56: commands that a frozen node had received execute at once when it
// continues.
func TestABurstThatANodeFrozeInLeavesNoKey(t *testing.T) {
	const pairs = 200
	for _, freeze := range []time.Duration{time.Second, 20 * time.Second} {
		for _, after := range []int64{1, 57} {
			inBubble(t, nil, func(t *testing.T, m *fakeredis.Master, n *Node) {
				require.Equal(t, command.Granted, pinging().Outcome(t, n))
				var seen atomic.Int64
				m.Hook(func(_ int64, cmd string, _ []string) (string, bool) {
					if cmd == "SET" && seen.Add(1) == after {
						m.Freeze()
					}
					return "", false
				})
				var acquires, undos []*call
				for i := range pairs {
					key, token := fmt.Sprint("k", i), fmt.Sprint("t", i)
					acquires = append(acquires, acquiring(token, longTTL, key).On(n))
					if i%3 == 0 {
						synctest.Wait()
					}
				}
				time.Sleep(500 * time.Millisecond) // the node timeout: a caller without an answer sends undos
				for i, c := range acquires {
					if !c.Cancel() {
						undos = append(undos, releasing(c.Token(), c.Keys[0]).Within(n, longTTL).On(n))
					}
					if i%5 == 0 {
						synctest.Wait()
					}
				}
				time.Sleep(freeze)
				m.Unfreeze()
				for _, c := range undos {
					c.Reply(t)
				}
				for _, c := range acquires {
					c.Reply(t)
				}
				synctest.Wait()
				require.Empty(t, m.Keys(), "frozen for %v after %d", freeze, after)
			})
		}
	}
}
