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
	table     *Table
	name      string        // of the channel
	of        string        // the name whose releases are announced
	confirmed []bool        // by node: the subscription is in effect
	waiter    *Waiter       // the only head that waits for the name; nil: it has left
	keepUntil clock.Instant // end of Linger
	timer     timer.Timer   // ends the subscription
	resting   bool          // it is not subscribed to for now: see Waiter.restLocked

	// Of the last release that was announced:
	announcedBy []bool // by node
	announced   int    // nodes
	firstAt     clock.Instant
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
			n := len(t.cfg.Nodes)
			c = &channel{table: t, name: id, of: name, confirmed: make([]bool, n), announcedBy: make([]bool, n)}
			t.channels[id] = c
			t.addSubscriptionsLocked(id)
		}
		t.cfg.Timers.Clear(&c.timer)
		c.waiter = w
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

func (w *Waiter) listensLocked() bool {
	return w.resting() || w.confirmedNodesLocked() >= w.table.majority()
}

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
		c.waiter = nil
		if c.resting {
			c.endLocked()
			continue
		}
		if !w.subscribedBefore {
			c.keepUntil = t.now().Add(Linger)
		}
		if !t.closed {
			t.cfg.Timers.Set(&c.timer, c.keepUntil, Linger, c)
		}
	}
	w.channels = nil
	w.planLocked(0)
}

// Fire ends the subscription to a channel that has no waiter any more.
func (c *channel) Fire(*timer.Timer) {
	t := c.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.waiter == nil && t.channels[c.name] == c {
		c.endLocked()
	}
}

// endLocked ends the subscription.
func (c *channel) endLocked() {
	t := c.table
	delete(t.channels, c.name)
	if !c.resting {
		t.removeSubscriptionsLocked(c.name)
	}
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
	if c == nil || c.confirmed[l.node] || c.resting {
		return
	}
	c.confirmed[l.node] = true
	c.wakeSubscribedLocked(l.node)
}

// wakeSubscribedLocked wakes the waiter if its subscription on a node was the last one that it needed for a
// majority.
func (c *channel) wakeSubscribedLocked(node int) {
	if w := c.waiter; w != nil && w.confirmedOnLocked(node) && w.confirmedNodesLocked() == c.table.majority() {
		w.wakeLocked(BySubscription)
	}
}

// Message plans the waiter's attempt after a release. It is made at the earliest when so many nodes have
// announced it that a quorum can be free, or soon after the first one.
func (l *listener) Message(id, payload string) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	c := l.table.channels[id]
	if c == nil || c.resting {
		return
	}
	now := l.table.now()
	another := c.announced == 0 || c.announcedBy[l.node]
	switch {
	case another && c.announced > 0 && c.announced < l.table.majority() && now.Before(c.firstAt.Add(AnnounceGrace)):
		return // one node alone may not put the attempt off again and again
	case another:
		clear(c.announcedBy)
		c.announced, c.firstAt = 0, now
	}
	c.announcedBy[l.node] = true
	if c.announced++; another {
		c.heardLocked(parseRelease(payload))
	} else if c.announced == l.table.majority() && c.waiter != nil {
		c.waiter.dueLocked()
	}
}

// heardLocked plans an attempt of the waiter after a release, or a rest.
func (c *channel) heardLocked(r release) {
	s := c.table.names[c.of]
	if s == nil {
		return
	}
	other := s.hears(c.firstAt, r)
	w, waited := c.waiter, s.age(c.firstAt)
	if w == nil {
		return
	}
	switch rest := s.rest(waited, draw()); {
	case rest > 0 && len(w.channels) == 1:
		w.restLocked(rest)
	case other:
		w.planLocked(c.firstAt.Add(s.delay(waited, draw())))
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
			if c.waiter != nil {
				c.waiter.wakeLocked(ByPoll)
			}
		}
	}
}

// planLocked plans an attempt, in place of another one or of a rest; 0: none.
func (w *Waiter) planLocked(at clock.Instant) {
	if at != 0 {
		at = max(at, w.quietUntil)
	}
	w.listenAgainLocked()
	w.due = at
	w.dueLocked()
}

// dueLocked wakes the waiter if it is time for its attempt, or sets its timer.
func (w *Waiter) dueLocked() {
	t, at := w.table, max(w.due, w.restUntil)
	if at == 0 {
		t.cfg.Timers.Clear(&w.timer)
		return
	}
	if w.restUntil == 0 {
		for _, c := range w.channels {
			if c.announced > 0 && c.announced < t.majority() {
				at = max(at, c.firstAt.Add(AnnounceGrace))
			}
		}
	}
	if left := at.Sub(t.now()); left > 0 {
		w.timed = true
		t.cfg.Timers.Set(&w.timer, at, left, w)
		return
	}
	t.cfg.Timers.Clear(&w.timer)
	if w.restUntil != 0 {
		w.listenAgainLocked()
		return
	}
	w.due = 0
	w.wakeLocked(ByMessage)
}

// Fire continues when the planned time has come. The timers call it.
func (w *Waiter) Fire(*timer.Timer) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.dueLocked()
}

// restLocked ends the subscription to the only name for a while: the waiter is far from its turn, and to hear of
// each release costs all processes more than it is worth. When it subscribes again it polls, since nobody may
// listen by then.
func (w *Waiter) restLocked(d time.Duration) {
	t, c := w.table, w.channels[0]
	w.due, w.restUntil = 0, t.now().Add(d)
	if !c.resting {
		c.resting, c.announced = true, 0
		clear(c.confirmed)
		t.removeSubscriptionsLocked(c.name)
	}
	w.dueLocked()
}

// resting reports whether the waiter rests.
func (w *Waiter) resting() bool { return w.restUntil != 0 }

// listenAgainLocked ends a rest.
func (w *Waiter) listenAgainLocked() {
	w.restUntil = 0
	for _, c := range w.channels {
		c.restEndsLocked()
	}
}

// restEndsLocked subscribes again.
func (c *channel) restEndsLocked() {
	if c.resting {
		c.resting = false
		c.table.addSubscriptionsLocked(c.name)
	}
}
