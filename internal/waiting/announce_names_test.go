package waiting

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// all is the channel of all waiters.
const all = "redlock:free:"

// inSubscribers runs f in virtual time with a table over three nodes that can be subscribed to.
func inSubscribers(t *testing.T, f func(t *testing.T, table *Table, nodes []*subscriber)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		nodes, voters := make([]*subscriber, 3), make([]command.Node, 3)
		for i := range nodes {
			nodes[i] = &subscriber{}
			voters[i] = nodes[i]
		}
		c := clock.Runtime()
		table := NewTable(Config{Nodes: voters, Clock: c, Timers: timer.New(c), Backoff: Backoff{Min: time.Millisecond, Max: time.Second}})
		defer table.cfg.Timers.Stop()
		f(t, table, nodes)
	})
}

// wokenBy returns why a waiter was woken.
func wokenBy(c *contender) Reason {
	c.Waiter.table.mu.Lock()
	defer c.Waiter.table.mu.Unlock()
	return c.woken
}

// confirm confirms channels on nodes.
func confirm(nodes []*subscriber, channels ...string) {
	for _, n := range nodes {
		for _, channel := range channels {
			n.listener.Subscribed(channel)
		}
	}
}

// Otherwise a release of the other name would be noticed only by a poll, up to a second later.
func TestAWaiterForSeveralNamesReliesOnNoChannelAlone(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
			w := enter(table, "a", "b")
			w.listen()
			confirm(nodes, all, all+name)
			require.False(t, w.listens())
			w.leave()
			w.enter("a", "b") // while the subscriptions linger
			require.False(t, w.subscribedBefore)
			confirm(nodes, all+"a", all+"b")
			w.leave()
			w.enter("a", "b")
			require.True(t, w.subscribedBefore)
			w.leave()
		})
	}
}

// The connections of a subscription are lost, or a node confirms it after its end. Otherwise a waiter would rely on
// announcements that it does not receive.
func TestAChannelIsConfirmedOnlyWhileItIsSubscribedTo(t *testing.T) {
	for _, late := range []int{0, 3} {
		inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
			w := enter(table, "a")
			w.listen()
			confirm(nodes, all, all+"a")
			require.True(t, w.listens())
			for _, n := range nodes {
				n.listener.Down(nil)
			}
			confirm(nodes, all+"a")
			require.False(t, w.listens(), "the other channel is not confirmed again")
			confirm(nodes, all)
			require.True(t, w.listens())
			w.leave()
			time.Sleep(2 * Linger)
			synctest.Wait()

			confirm(nodes[:late], all)
			w = enter(table, "a")
			w.listen()
			confirm(nodes, all+"a")
			require.False(t, w.listens(), "nor is it after its end")
			w.leave()
		})
	}
}

// Otherwise a waiter would attempt at once after a release that one node alone has announced, and mostly in vain.
func TestANodeCountsOnceHoweverOftenItAnnounces(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		w.listen()
		for range 3 {
			nodes[0].listener.Message(all+"a", "")
		}
		require.Equal(t, none, wokenBy(w))
		nodes[1].listener.Message(all+"a", "")
		require.Equal(t, ByMessage, wokenBy(w))
		w.leave()
	})
}

// Otherwise an announcement from before the last attempt would cause another one.
func TestAnAnnouncementThatWasDiscardedWakesNobody(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		w.listen()
		nodes[0].listener.Message(all+"a", "")
		w.ClearSignals()
		time.Sleep(2 * AnnounceGrace)
		synctest.Wait()
		require.Equal(t, none, wokenBy(w))
		w.leave()
	})
}

// Otherwise fruitless announcements would cause more attempts than the pause allows.
func TestAnAnnouncementFromBeforeAPauseWakesAfterIt(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		w.listen()
		nodes[0].listener.Message(all+"a", "")
		table.mu.Lock()
		w.quiet = table.now().Add(time.Second) // as after a fruitless attempt
		table.mu.Unlock()
		time.Sleep(time.Second - 1)
		synctest.Wait()
		require.Equal(t, none, wokenBy(w))
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, ByMessage, wokenBy(w))
		w.leave()
	})
}

// Otherwise a poll would end early.
func TestAChannelThatIsConfirmedTwiceWakesOnce(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		w.listen()
		confirm(nodes[:2], all, all+"a")
		require.Equal(t, BySubscription, wokenBy(w))
		w.ClearSignals()
		confirm(nodes[:2], all+"a")
		require.Equal(t, none, wokenBy(w))
		w.leave()
	})
}

// Otherwise a process would yield for longer and longer to others that do use their turn.
func TestAYieldThatAnotherProcessUsedIsNotFruitless(t *testing.T) {
	for _, used := range []bool{true, false} {
		inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
			w := enter(table, "a")
			w.listen()
			s := table.names["a"]
			s.mustYield, s.emptyYields = true, 2
			time.AfterFunc(11*time.Millisecond, func() { // of twelve
				if used {
					nodes[0].listener.Message(all+"a", "")
				}
			})
			s.releasedAt = table.now()
			require.NoError(t, w.yield(time.Millisecond))
			require.Equal(t, used, s.emptyYields == 0)
			w.leave()
		})
	}
}

// Otherwise timers would keep a closed Locker alive.
func TestACloseLeavesNoTimerOfASubscription(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, _ []*subscriber) {
		w := enter(table, "a", "b")
		w.listen()
		w.leave()
		require.Equal(t, 2, table.cfg.Timers.Len())
		table.Close()
		require.Zero(t, table.cfg.Timers.Len())
	})
}
