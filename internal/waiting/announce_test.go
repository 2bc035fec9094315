package waiting

import (
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// subscriber is a node that records its subscription.
type subscriber struct {
	command.Node
	listener command.Listener

	mu    sync.Mutex // guards all
	all   map[string]bool
	polls atomic.Int32
}

// Submit has a poll answered: the name is held.
func (s *subscriber) Submit(c, _ *command.Command) error {
	s.polls.Add(1)
	go c.Answer(heldFor(time.Hour))
	return nil
}

// channels returns the channels that are subscribed to.
func (s *subscriber) channels() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}

func (s *subscriber) Subscribe(l command.Listener) command.Subscription {
	s.listener, s.all = l, map[string]bool{}
	return s
}

func (s *subscriber) Close() {}

func (s *subscriber) Add(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[channel] = true
}

func (s *subscriber) Remove(channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, channel)
}

// A merged release is announced to those only that subscribe to the channel of all waiters. So a
// waiter relies on a node's announcements when that channel is confirmed too, in either order.
func TestAWaiterNeedsTheChannelOfAllWaiters(t *testing.T) {
	const name, all = "redlock:free:app/a", "redlock:free:app/"
	for _, order := range [][]string{{name, all}, {all, name}} {
		synctest.Test(t, func(t *testing.T) {
			c := clock.Runtime()
			nodes := make([]command.Node, 3)
			for i := range nodes {
				nodes[i] = &subscriber{}
			}
			table := NewTable(Config{Nodes: nodes, Clock: c, Timers: timer.New(c), Prefix: "app/", Backoff: Backoff{Min: time.Millisecond, Max: time.Second}})
			w := enter(table, "a")
			require.True(t, listen(w))
			require.False(t, told(w))
			for _, channel := range order {
				require.False(t, told(w))
				require.Equal(t, none, w.woken)
				for _, n := range nodes[:2] {
					require.True(t, n.(*subscriber).channels()[channel])
					n.(*subscriber).listener.Subscribed(channel)
				}
			}
			require.True(t, told(w), "on a majority")
			require.Equal(t, BySubscription, w.woken)
			nodes[0].(*subscriber).listener.Down(nil)
			require.False(t, told(w))
			w.leave()
			time.Sleep(2 * Linger)
			synctest.Wait()
			for _, n := range nodes {
				require.Empty(t, n.(*subscriber).channels())
			}
			require.False(t, table.isMajority(table.channels.shared.confirmed))
		})
	}
}

// A confirmation that completes no node wakes no waiter: it would end a poll early.
func TestAWaiterIsWokenBySubscriptionsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.Runtime()
		nodes := make([]command.Node, 3)
		for i := range nodes {
			nodes[i] = &subscriber{}
		}
		table := NewTable(Config{Nodes: nodes, Clock: c, Timers: timer.New(c), Backoff: Backoff{Min: time.Millisecond, Max: time.Second}})
		w := enter(table, "a", "b")
		listen(w)
		channels := []string{"redlock:free:", "redlock:free:a", "redlock:free:b"}
		for _, channel := range channels {
			for _, n := range nodes[:2] {
				n.(*subscriber).listener.Subscribed(channel)
			}
		}
		require.Equal(t, BySubscription, w.woken)
		clearSignals(&w.Waiter)
		for _, channel := range channels {
			nodes[2].(*subscriber).listener.Subscribed(channel)
			require.Equal(t, none, w.woken, channel)
		}
		w.leave()
	})
}
