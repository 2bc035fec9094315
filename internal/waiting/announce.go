package waiting

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// AnnounceGrace is how long after the first node's announcement a waiter waits for those of other
// nodes. One node is not a quorum, but announcements may be lost.
const AnnounceGrace = 2 * time.Millisecond

// channel is the release channel of a name that is subscribed to. Table.mu guards it.
type channel struct {
	table         *Table
	name          string // of the channel
	confirmed     []bool // by node: the subscription is in effect
	waiters       map[*Waiter]struct{}
	lastAnnounced clock.Instant // time of the last announcement
	keepUntil     clock.Instant // end of Linger
	timer         timer.Timer   // ends the subscription
}

// subscribeLocked subscribes a head to its names, on every node that supports subscriptions.
func (w *Waiter) subscribeLocked() {
	t := w.table
	if t.closed || !t.connectLocked() {
		return
	}
	if len(t.channels) == 0 {
		t.addSubscriptionsLocked(t.shared.name)
	}
	for _, name := range w.names {
		id := command.FreePrefix + t.cfg.Prefix + name
		c := t.channels[id]
		if c == nil {
			c = &channel{table: t, name: id, confirmed: make([]bool, len(t.cfg.Nodes)), waiters: make(map[*Waiter]struct{})}
			t.channels[id] = c
			t.addSubscriptionsLocked(id)
		}
		t.cfg.Timers.Clear(&c.timer)
		c.waiters[w] = struct{}{}
		w.channels = append(w.channels, c)
	}
}

func (t *Table) addSubscriptionsLocked(channel string) {
	for _, sub := range t.subs {
		if sub != nil {
			sub.Add(channel)
		}
	}
}

func (t *Table) removeSubscriptionsLocked(channel string) {
	for _, sub := range t.subs {
		if sub != nil {
			sub.Remove(channel)
		}
	}
}

// resubscribeLocked subscribes before the attempt if the channels are already confirmed, as for a
// process that contends for a name again. No release is then missed between the attempt and the
// wait, so no second attempt is necessary.
func (w *Waiter) resubscribeLocked() {
	if w.channels != nil || !w.table.shared.confirmedOnMajority() {
		return
	}
	for _, name := range w.names {
		if c := w.table.channelLocked(name); c == nil || !c.confirmedOnMajority() {
			return
		}
	}
	w.subscribeLocked()
	w.subscribedBefore = true
}

// listen subscribes to the releases of the names, unless that was done before. It reports whether
// this call did so, and whether the subscriptions are confirmed on a majority of the nodes. Any
// release then reaches at least one of them.
func (w *Waiter) listen() (first, confirmed bool) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.subscribedBefore = false
	if first = w.channels == nil; first {
		w.subscribeLocked()
	}
	return first, w.listensLocked()
}

// listens reports whether the subscriptions are confirmed on a majority of the nodes.
func (w *Waiter) listens() bool {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	return w.listensLocked()
}

func (w *Waiter) listensLocked() bool { return w.confirmedNodesLocked() >= w.table.majority() }

// channelLocked returns the release channel of a name, or nil if there is no subscription.
func (t *Table) channelLocked(name string) *channel {
	if len(t.channels) == 0 {
		return nil // the usual case; it avoids building the channel's name
	}
	return t.channels[command.FreePrefix+t.cfg.Prefix+name]
}

// connectLocked makes the subscription of each node, and reports whether there is any.
func (t *Table) connectLocked() (some bool) {
	if t.subs == nil {
		t.subs = make([]command.Subscription, len(t.cfg.Nodes))
		for i, n := range t.cfg.Nodes {
			if s, ok := n.(command.Subscriber); ok {
				t.subs[i] = s.Subscribe(&listener{table: t, node: i})
			}
		}
	}
	for _, s := range t.subs {
		some = some || s != nil
	}
	return some
}

// unsubscribeLocked ends a head's use of its channels. A waiter that got the lock at once did not
// wait and does not prolong Linger. Otherwise a process that acquires a name again and again would
// never leave its channel.
func (w *Waiter) unsubscribeLocked() {
	if w.channels == nil {
		return
	}
	t := w.table
	for _, c := range w.channels {
		delete(c.waiters, w)
		if !w.subscribedBefore {
			c.keepUntil = t.now().Add(Linger)
		}
		if len(c.waiters) == 0 && !t.closed {
			t.cfg.Timers.Set(&c.timer, c.keepUntil, Linger, c)
		}
	}
	w.channels = nil
	t.cfg.Timers.Clear(&w.timer)
}

// Fire ends the subscription to a channel that has no waiter any more.
func (c *channel) Fire(*timer.Timer) {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(c.waiters) > 0 || t.channels[c.name] != c {
		return
	}
	delete(t.channels, c.name)
	t.removeSubscriptionsLocked(c.name)
	if len(t.channels) == 0 {
		t.removeSubscriptionsLocked(t.shared.name)
		clear(t.shared.confirmed)
	}
}

func (t *Table) majority() int { return quorum.Majority(len(t.cfg.Nodes)) }

// confirmedOnMajority reports whether the channel is confirmed on a majority of the nodes.
func (c *channel) confirmedOnMajority() bool {
	nodes := 0
	for _, confirmed := range c.confirmed {
		if confirmed {
			nodes++
		}
	}
	return nodes >= quorum.Majority(len(c.confirmed))
}

// ownSubscribersLocked returns how many subscribers of each name's channel are this Table itself.
// It is 1 if every name has a subscription that is confirmed on a majority of the nodes. A count
// that is too high would hide a waiter elsewhere. A count that is too low makes this process yield
// to waiters that do not exist.
func (t *Table) ownSubscribersLocked(names []string) int {
	for _, name := range names {
		if c := t.channelLocked(name); c == nil || !c.confirmedOnMajority() {
			return 0
		}
	}
	return 1
}

// confirmedNodesLocked returns on how many nodes the waiter receives announcements.
func (w *Waiter) confirmedNodesLocked() (nodes int) {
	for i := range w.table.shared.confirmed {
		if w.confirmedOnLocked(i) {
			nodes++
		}
	}
	return nodes
}

// confirmedOnLocked reports whether all channels of the waiter are confirmed on a node, and the one
// of all waiters.
func (w *Waiter) confirmedOnLocked(node int) bool {
	ok := len(w.channels) > 0 && w.table.shared.confirmed[node]
	for _, c := range w.channels {
		ok = ok && c.confirmed[node]
	}
	return ok
}

// listener receives the announcements of one node. The subscription's goroutine calls it.
type listener struct {
	table *Table
	node  int
}

// Subscribed wakes the waiters whose subscription is now confirmed on a majority. They may have
// missed a release that came before.
func (l *listener) Subscribed(id string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if id == l.table.shared.name {
		l.table.shared.confirmed[l.node] = len(l.table.channels) > 0
		for _, c := range l.table.channels {
			c.wakeSubscribedLocked(l.node)
		}
		return
	}
	c := l.table.channels[id]
	if c == nil || c.confirmed[l.node] {
		return
	}
	c.confirmed[l.node] = true
	c.wakeSubscribedLocked(l.node)
}

// wakeSubscribedLocked wakes the waiters whose subscription on a node was the last one that they
// needed for a majority.
func (c *channel) wakeSubscribedLocked(node int) {
	for w := range c.waiters {
		if w.confirmedOnLocked(node) && w.confirmedNodesLocked() == c.table.majority() {
			w.wakeLocked(BySubscription)
		}
	}
}

// Message wakes a waiter when so many nodes have announced a release that a quorum can be free, or
// soon after the first one.
func (l *listener) Message(id, _ string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	c := l.table.channels[id]
	if c == nil {
		return
	}
	c.lastAnnounced = l.table.now()
	for w := range c.waiters {
		w.noteAnnouncementLocked(l.node)
	}
}

// Down wakes the waiters of a lost subscription, which then poll.
func (l *listener) Down(error) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	l.table.shared.confirmed[l.node] = false
	for _, c := range l.table.channels {
		if c.confirmed[l.node] {
			c.confirmed[l.node] = false
			for w := range c.waiters {
				w.wakeLocked(ByPoll)
			}
		}
	}
}

// noteAnnouncementLocked records a node's announcement.
func (w *Waiter) noteAnnouncementLocked(node int) {
	t := w.table
	if w.announcedBy == nil {
		w.announcedBy = make([]bool, len(t.cfg.Nodes))
	}
	if w.announcedBy[node] {
		return
	}
	w.announcedBy[node] = true
	now, at := t.now(), w.quiet
	if w.announced++; w.announced < t.majority() {
		at = max(at, now.Add(AnnounceGrace))
	}
	if left := at.Sub(now); left > 0 {
		t.cfg.Timers.Set(&w.timer, at, left, w)
		return
	}
	w.wakeLocked(ByMessage)
}

// Fire wakes the waiter some time after the first announcement. The timers call it.
func (w *Waiter) Fire(*timer.Timer) {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	switch left := w.quiet.Sub(t.now()); {
	case w.announced == 0:
	case left > 0:
		t.cfg.Timers.Set(&w.timer, w.quiet, left, w)
	default:
		w.wakeLocked(ByMessage)
	}
}
