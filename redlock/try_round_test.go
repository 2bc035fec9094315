package redlock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/pool"
)

// jittery is a connection whose every write takes up to a millisecond to arrive.
type jittery struct{ net.Conn }

func (c jittery) Write(p []byte) (int, error) {
	time.Sleep(rand.N(time.Millisecond))
	return c.Conn.Write(p)
}

// jitteryLocker makes a Locker over jittery connections, as in another process.
func (fl *testbed) jitteryLocker(opts ...Option) *Locker {
	fl.t.Helper()
	nodes := make([]*pool.Node, len(fl.masters))
	for i, m := range fl.masters {
		n, err := pool.Open(pool.Config{
			Name: m.Name(), Address: m.Addr(), Clock: fl.clock,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := m.Dial(ctx, network, address)
				return jittery{c}, err
			},
		})
		require.NoError(fl.t, err)
		nodes[i] = n
	}
	l, err := New(nodes, append([]Option{WithClock(fl.clock)}, opts...)...)
	require.NoError(fl.t, err)
	fl.t.Cleanup(func() { fl.close(l) })
	return l
}

// The recipe for jobs that must run once: five processes try at the same instant, and the winner
// releases at once, with a minimum hold. Each round has one winner, never none and never two.
func TestEveryRoundOfProcessesThatTryAtOnceHasOneWinner(t *testing.T) {
	t.Parallel()
	const processes = 5
	for nodes, rounds := range map[int]int{3: 60, 5: 30} {
		inBubble(t, nodes, func(fl *testbed) {
			var splits atomic.Int64
			trace := &Trace{Attempt: func(e RoundEvent) {
				if isSplit(e.Err) {
					splits.Add(1)
				}
			}}
			var lockers []*Locker
			for range processes {
				lockers = append(lockers, fl.process().jitteryLocker(WithTrace(trace)))
			}
			pass(time.Second)
			fl.each(func(m *fakeredis.Master) { m.SetDelay(100 * time.Microsecond) })
			for round := range rounds {
				name := fmt.Sprint("job-", round)
				winners := 0
				for err := range together(processes, func(i int) error {
					k, err := lockers[i].TryAcquire(bg, name, 2*time.Second, WithMinHold(2*time.Second))
					if err == nil {
						return k.Release(bg)
					}
					return err
				}) {
					if err == nil {
						winners++
						continue
					}
					var qe *QuorumError
					require.ErrorAs(t, err, &qe)
					require.ErrorIs(t, err, ErrHeld)
				}
				require.Equal(t, 1, winners, "round %d on %d nodes", round, nodes)
			}
			fl.answered()
			t.Logf("%d nodes: %d split votes in %d rounds", nodes, splits.Load(), rounds)
			require.Greater(t, splits.Load(), int64(rounds), "splits are common")
		})
	}
}
