package waiting

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/verdict"
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
		table := NewTable(Config{Nodes: voters, Clock: c, Timers: timer.New(c), Backoff: Backoff{Min: time.Millisecond, Max: time.Second}, PollTimeout: time.Second})
		time.Sleep(time.Millisecond) // the instant 0 stands for none
		f(t, table, nodes)
	})
}

// listen subscribes a waiter, as after an attempt that failed because the names are held, and reports whether this call
// did so.
func listen(c *contender) (first bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	first = c.subs.beginLocked(c.names)
	c.look.expiry = never
	c.look.listen(never)
	return first
}

// told reports whether a waiter relies on announcements.
func told(c *contender) bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.toldLocked()
}

// wokenBy returns why a waiter would continue now.
func wokenBy(c *contender) Reason {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if at, why := c.nextLocked(); at <= c.table.now() {
		return max(why, c.woken)
	}
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
			listen(w)
			confirm(nodes, all, all+name)
			require.False(t, told(w))
			w.leave()
			w.enter("a", "b") // while the subscriptions linger
			require.False(t, w.subs.before)
			confirm(nodes, all+"a", all+"b")
			w.leave()
			w.enter("a", "b")
			require.True(t, w.subs.before)
			w.leave()
		})
	}
}

// While another one is held it would count as one that comes for a name, and be left time. If the name that it awaits is
// free, an attempt finds out which one is not.
func TestAWaiterForSeveralNamesAwaitsTheOneThatIsStillHeld(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		held := func(tokens ...string) verdict.Contention {
			return verdict.Contention{Why: verdict.Held, Stuck: true, FreeIn: -1, Tokens: tokens}
		}
		w := enter(table, "a", "b")
		w.failed(held("one", "two"))
		require.Len(t, nodes[0].channels(), 3)
		confirm(nodes, all, all+"a", all+"b")
		w.failed(held("three", "two"))
		require.Equal(t, map[string]bool{all: true, all + "b": true}, nodes[0].channels())
		require.True(t, told(w))
		w.failed(verdict.Contention{Why: verdict.Assumed, Stuck: true, FreeIn: -1})
		require.Len(t, nodes[0].channels(), 2, "nothing else was seen")

		w.poll = newPoll(&w.Waiter, make([]bool, 3))
		until := table.now().Add(time.Minute + ExpiryMargin)
		for i := range nodes {
			w.poll.cmds[i].Answer(heldFor(time.Minute))
			w.poll.cmds[3+i].Answer(free)
		}
		require.Equal(t, tries, w.poll.end())
		require.Equal(t, []clock.Instant{until, until, until}, w.blocked, "the error of the last attempt says so")

		w.failed(held("four", ""))
		require.Len(t, nodes[0].channels(), 3)
		require.False(t, told(w))
		confirm(nodes, all+"a")
		require.Equal(t, BySubscription, w.woken, "it may have been released before")
		w.failed(held("four", "five"))
		require.Len(t, nodes[0].channels(), 2)
		w.leave()
		require.Empty(t, nodes[0].channels(), "a release of both would count it as another process")
	})
}

// The connections of a subscription are lost, or a node confirms it after its end. Otherwise a waiter would rely on
// announcements that it does not receive.
func TestAChannelIsConfirmedOnlyWhileItIsSubscribedTo(t *testing.T) {
	for _, late := range []int{0, 3} {
		inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
			w := enter(table, "a")
			listen(w)
			confirm(nodes, all, all+"a")
			require.True(t, told(w))
			for _, n := range nodes {
				n.listener.Down(nil)
			}
			confirm(nodes, all+"a")
			require.False(t, told(w), "the other channel is not confirmed again")
			confirm(nodes, all)
			require.True(t, told(w))
			w.leave()
			time.Sleep(2 * Linger)
			synctest.Wait()

			confirm(nodes[:late], all)
			w = enter(table, "a")
			listen(w)
			confirm(nodes, all+"a")
			require.False(t, told(w), "nor is it after its end")
			w.leave()
		})
	}
}

// Otherwise a waiter would attempt at once after a release that one node alone has announced, and mostly in vain.
func TestANodeCountsOnceHoweverOftenItAnnounces(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
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
		listen(w)
		nodes[0].listener.Message(all+"a", "")
		clearSignals(&w.Waiter)
		time.Sleep(2 * AnnounceGrace)
		synctest.Wait()
		require.Equal(t, none, wokenBy(w))
		w.leave()
	})
}

// Otherwise a client that may publish could make every waiter send attempts without end.
func TestMessagesInVainCauseFewAttempts(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		attempts := 0
		for end := table.now().Add(time.Minute); table.now().Before(end); time.Sleep(time.Millisecond) {
			nodes[0].listener.Message(all+"a", "1 1")
			nodes[1].listener.Message(all+"a", "1 1")
			if synctest.Wait(); wokenBy(w) == ByMessage {
				attempts++
				w.reason = ByMessage
				clearSignals(&w.Waiter)
				for _, n := range nodes[:2] { // during the attempt
					n.listener.Message(all+"a", "1 1")
				}
				w.failed(verdict.Contention{Why: refusal(w), Tokens: []string{"one"}})
				if listen(w); w.seen.vain > patience {
					require.Equal(t, none, wokenBy(w))
				}
			}
		}
		require.Less(t, attempts, patience+80)
		require.Greater(t, attempts, patience+50)
		w.leave()
		time.Sleep(2 * Linger)
	})
}

// Otherwise a poll would end early.
func TestAChannelThatIsConfirmedTwiceWakesOnce(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		confirm(nodes[:2], all, all+"a")
		require.Equal(t, BySubscription, wokenBy(w))
		clearSignals(&w.Waiter)
		confirm(nodes[:2], all+"a")
		require.Equal(t, none, wokenBy(w))
		w.leave()
	})
}

// Otherwise a waiter would starve where many wait: most of its attempts are refused.
func TestAWaiterThatOthersAreFasterThanDoesNotBackOff(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, _ []*subscriber) {
		w := enter(table, "a")
		w.reason = ByMessage
		for i := range 100 * patience {
			w.failed(verdict.Contention{Why: refusal(w), Tokens: []string{strconv.Itoa(i)}})
			require.Zero(t, w.look.quiet)
		}
		w.leave()
		time.Sleep(2 * Linger)
	})
}

// Where many wait, one that is far from its turn does not listen, and polls when it listens again.
func TestAWaiterThatIsFarFromItsTurnRests(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		confirm(nodes, all, all+"a")
		table.names["a"].waits(table.now())
		clearSignals(&w.Waiter)
		w.fails(verdict.Contention{Why: verdict.Held, Stuck: true, FreeIn: -1, Tokens: []string{"one"}})
		release := func() {
			nodes[0].listener.Message(all+"a", "400000 100000")
			nodes[1].listener.Message(all+"a", "400000 100000")
		}
		release()
		require.Len(t, nodes[0].channels(), 2, "one message alone may be wrong")
		release()
		for _, n := range nodes {
			require.Equal(t, map[string]bool{all: true}, n.channels())
		}
		release() // was on its way
		require.True(t, told(w), "it relies on it that it will listen in time")
		time.Sleep(300*time.Millisecond - 1)
		synctest.Wait()
		require.Len(t, nodes[0].channels(), 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Len(t, nodes[0].channels(), 2)
		require.False(t, told(w))
		require.Zero(t, nodes[0].polls.Load())
		confirm(nodes, all+"a")
		synctest.Wait()
		require.EqualValues(t, 1, nodes[0].polls.Load())
		require.Empty(t, w.begun, "the name is held")
		time.Sleep(300 * time.Millisecond)
		nodes[0].listener.Message(all+"a", "400000 1") // few listen by now
		require.Len(t, nodes[0].channels(), 2)
		time.Sleep(2 * AnnounceGrace)
		synctest.Wait()
		require.Len(t, w.begun, 1)
		require.Equal(t, ByMessage, w.reason)
		w.leave()
		time.Sleep(2 * Linger)
	})
}

// Otherwise a waiter would try in the slot of another one when it hears of the next release. A slot that comes before its
// poll wakes it.
func TestATurnThatIsPutOffIsNotTaken(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		confirm(nodes, all, all+"a")
		clearSignals(&w.Waiter)
		w.fails(verdict.Contention{Why: verdict.Held, Stuck: true, FreeIn: -1, Tokens: []string{"one"}})
		plan := func(d time.Duration) {
			table.mu.Lock()
			defer table.mu.Unlock()
			w.planLocked(table.now().Add(d))
		}
		began := time.Now()
		plan(time.Millisecond)
		synctest.Wait() // it sleeps until then
		plan(10 * time.Millisecond)
		<-w.begun
		require.Equal(t, 10*time.Millisecond, time.Since(began))
		require.Equal(t, ByMessage, w.reason)
		w.Leave()
		time.Sleep(2 * Linger)
	})
}

// One message ends a rest that another one began, as those of two names may. Otherwise it would never listen again.
func TestAPlanEndsARest(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		confirm(nodes, all, all+"a")
		table.mu.Lock()
		w.restLocked(time.Hour)
		require.False(t, table.isMajority(w.subs.channels[0].confirmed))
		table.mu.Unlock()
		confirm(nodes, all+"a") // was on its way
		require.False(t, table.isMajority(w.subs.channels[0].confirmed), "it is not subscribed to")
		table.mu.Lock()
		w.planLocked(table.now().Add(time.Hour))
		table.mu.Unlock()
		require.Len(t, nodes[0].channels(), 2)
		require.Zero(t, w.look.rest)
		confirm(nodes, all+"a")
		require.True(t, told(w))
		w.leave()

		both := enter(table, "a", "b")
		listen(both)
		table.names["a"].waits(table.now())
		for _, n := range []*subscriber{nodes[0], nodes[1], nodes[0], nodes[1]} {
			n.listener.Message(all+"a", "400000 100000")
		}
		require.Len(t, nodes[0].channels(), 3, "a waiter for two names does not rest")
		both.leave()
		time.Sleep(2 * Linger)
	})
}

// A waiter that leaves while it rests leaves no subscription that lingers: it would count as one that waits.
func TestAWaiterMayLeaveWhileItRests(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		table.mu.Lock()
		w.restLocked(time.Hour)
		table.mu.Unlock()
		require.Len(t, nodes[0].channels(), 1)
		w.leave()
		require.Empty(t, nodes[0].channels())
		require.Zero(t, table.cfg.Timers.Len())
		_, channels := table.Size()
		require.Zero(t, channels)
	})
}

// The nodes may be at different distances. An attempt after the first one's announcement is in vain then, and the
// others' announcements are of the same release, or of one that the first node had no part in.
func TestAnnouncementsFarApartAreNotLost(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		for _, n := range nodes {
			n.listener.Message(all+"a", "")
			time.Sleep(AnnounceGrace)
			synctest.Wait()
			require.Equal(t, ByMessage, wokenBy(w))
			clearSignals(&w.Waiter)
			time.Sleep(10 * AnnounceGrace)
			synctest.Wait()
			require.Equal(t, none, wokenBy(w))
		}
		for _, n := range nodes[:2] { // a majority at once
			n.listener.Message(all+"a", "")
		}
		require.Equal(t, ByMessage, wokenBy(w))
		clearSignals(&w.Waiter)
		nodes[2].listener.Message(all+"a", "") // the rest of it
		time.Sleep(10 * AnnounceGrace)
		synctest.Wait()
		require.Equal(t, none, wokenBy(w))
		w.leave()
	})
}

// Otherwise messages of one node alone would put the attempt off without end.
func TestOneNodeCannotPutAnAttemptOff(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, nodes []*subscriber) {
		w := enter(table, "a")
		listen(w)
		for range 2 * AnnounceGrace / time.Millisecond {
			nodes[0].listener.Message(all+"a", "")
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		require.Equal(t, ByMessage, wokenBy(w))
		w.leave()
	})
}

// Otherwise timers would keep a closed Locker alive.
func TestACloseLeavesNoTimerOfASubscription(t *testing.T) {
	inSubscribers(t, func(t *testing.T, table *Table, _ []*subscriber) {
		w := enter(table, "a", "b")
		listen(w)
		w.leave()
		require.Equal(t, 2, table.cfg.Timers.Len())
		table.Close()
		require.Zero(t, table.cfg.Timers.Len())
	})
}
