package waiting

import (
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// channels are the release channels that this process subscribes to. Table.mu guards them.
type channels struct {
	table  *Table
	byName map[string]*channel // by channel name
	shared channel             // of all waiters, subscribed to while there are others; it has no messages
	subs   []command.Subscription
}

// ofLocked returns the release channel of a name, or nil if there is no subscription.
func (all *channels) ofLocked(name string) *channel {
	if len(all.byName) == 0 {
		return nil // the usual case; it avoids building the channel's name
	}
	return all.byName[command.FreePrefix+all.table.cfg.Prefix+name]
}

// connectLocked makes the subscription of each node, and reports whether there is any.
func (all *channels) connectLocked() bool {
	if all.subs != nil {
		return len(all.subs) > 0
	}
	nodes := all.table.cfg.Nodes
	all.subs = make([]command.Subscription, 0, len(nodes))
	for i, n := range nodes {
		s, ok := n.(command.Subscriber)
		if !ok {
			continue
		}
		if sub := s.Subscribe(&listener{channels: all, node: i}); sub != nil {
			all.subs = append(all.subs, sub)
		}
	}
	return len(all.subs) > 0
}

// addLocked returns the release channel of a name, and subscribes to it unless that was done before.
func (all *channels) addLocked(name string) *channel {
	if len(all.byName) == 0 {
		all.subscribeLocked(all.shared.name)
	}
	id := command.FreePrefix + all.table.cfg.Prefix + name
	c := all.byName[id]
	if c == nil {
		c = &channel{all: all, name: id, of: name}
		all.byName[id] = c
		all.subscribeLocked(id)
	}
	all.table.cfg.Timers.Clear(&c.timer)
	return c
}

// removeLocked ends the subscription to a channel.
func (all *channels) removeLocked(c *channel) {
	delete(all.byName, c.name)
	if !c.resting {
		all.unsubscribeLocked(c.name)
	}
	if len(all.byName) == 0 {
		all.unsubscribeLocked(all.shared.name)
		all.shared.confirmed = 0
	}
}

func (all *channels) subscribeLocked(id string) {
	for _, sub := range all.subs {
		sub.Add(id)
	}
}

func (all *channels) unsubscribeLocked(id string) {
	for _, sub := range all.subs {
		sub.Remove(id)
	}
}

// confirmedLocked reports whether the subscriptions to all names are in effect on a majority of the nodes.
func (all *channels) confirmedLocked(names []string) bool {
	for _, name := range names {
		if c := all.ofLocked(name); c == nil || !all.table.isMajority(c.confirmed) {
			return false
		}
	}
	return true
}

// channel is the release channel of a name that is subscribed to. Table.mu guards it.
type channel struct {
	all       *channels
	name      string        // of the channel
	of        string        // the name whose releases are announced
	confirmed quorum.Nodes  // the subscription is in effect there
	waiter    *Waiter       // the only head that waits for the name; nil: it has left
	keepUntil clock.Instant // it is subscribed to until then, although no waiter is left
	timer     timer.Timer   // ends the subscription
	resting   bool          // it is not subscribed to for now: see Waiter.restLocked

	announced quorum.Nodes  // the nodes that have announced the last release
	firstAt   clock.Instant // when the first of them did
}

// leaveLocked ends the use of the channel. It remains subscribed to until keepUntil.
func (c *channel) leaveLocked() {
	c.waiter = nil
	if c.resting {
		c.all.removeLocked(c)
		return
	}
	c.keepLocked(c.keepUntil)
}

// keepLocked ends the subscription at an instant, unless a waiter comes before. Whoever is subscribed counts as one that waits.
func (c *channel) keepLocked(until clock.Instant) {
	if t := c.all.table; !t.closed {
		c.keepUntil = min(c.keepUntil, until)
		t.cfg.Timers.Set(&c.timer, c.keepUntil, c)
	}
}

// Fire ends the subscription to a channel that has no waiter any more.
func (c *channel) Fire(*timer.Timer) {
	t := c.all.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.waiter == nil && c.all.byName[c.name] == c {
		c.all.removeLocked(c)
	}
}

// wakeSubscribedLocked wakes the waiter if its subscription on a node was the last one that it needed for a
// majority.
func (c *channel) wakeSubscribedLocked(node int) {
	if c.waiter == nil || c.waiter.look.yields() {
		return
	}
	if nodes := c.waiter.subs.nodesLocked(); nodes.Has(node) && nodes.Len() == c.all.table.majority() {
		c.waiter.wakeLocked(BySubscription)
	}
}

// announceLocked records that a node has announced a release. The waiter's attempt is made at the earliest when so
// many nodes have that a quorum can be free, or soon after the first one.
func (c *channel) announceLocked(node int, payload string) {
	now := c.all.table.now()
	another := c.announced == 0 || c.announced.Has(node)
	switch {
	case another && c.awaitsMoreLocked() && now.Before(c.firstAt.Add(AnnounceGrace)):
		return // one node alone may not put the attempt off again and again
	case another:
		c.announced, c.firstAt = 0, now
	}
	if c.announced = c.announced.With(node); another {
		c.heardLocked(parseRelease(payload))
	} else if c.announced.Len() == c.all.table.majority() && c.waiter != nil {
		c.waiter.replanLocked()
	}
}

// awaitsMoreLocked reports whether a release was announced, and by fewer nodes than a majority.
func (c *channel) awaitsMoreLocked() bool {
	return c.announced != 0 && !c.all.table.isMajority(c.announced)
}

// heardLocked plans an attempt of the waiter after a release, or a rest.
func (c *channel) heardLocked(r release) {
	s := c.all.table.names[c.of]
	if s == nil {
		return
	}
	other := s.hears(c.firstAt, r)
	w, waited := c.waiter, s.age(c.firstAt)
	if w == nil {
		return
	}
	if other && len(w.names) == 1 { // all that saw the same keys would try at the same instant, though another process has the name by then
		w.look.released()
		w.look.renewing = r.left > 0 // and again when the keys end
	}
	switch rest := s.rest(waited, draw()); {
	case rest > 0 && len(w.names) == 1 && r.left == 0:
		w.restLocked(rest)
	case other:
		d, tries := s.delay(waited, draw())
		switch at := c.firstAt.Add(r.left + d); {
		case !tries:
			w.planLocked(0)
		case len(w.names) > 1:
			w.planLocked(max(at, w.look.due)) // it owes others the time for another name
		default:
			w.planLocked(at)
		}
	}
}

// restLocked ends the subscription for a while.
func (c *channel) restLocked() {
	if !c.resting {
		c.resting, c.announced, c.confirmed = true, 0, 0
		c.all.unsubscribeLocked(c.name)
	}
}

// restEndsLocked subscribes again.
func (c *channel) restEndsLocked() {
	if c.resting {
		c.resting = false
		c.all.subscribeLocked(c.name)
	}
}

// listener receives the announcements of one node. The subscription's goroutine calls it.
type listener struct {
	channels *channels
	node     int
}

// Subscribed wakes the waiters whose subscription is now confirmed on a majority. They may have
// missed a release that came before.
func (l *listener) Subscribed(id string) {
	all := l.channels
	all.table.mu.Lock()
	defer all.table.mu.Unlock()
	if id == all.shared.name {
		if len(all.byName) > 0 {
			all.shared.confirmed = all.shared.confirmed.With(l.node)
		}
		for _, c := range all.byName {
			c.wakeSubscribedLocked(l.node)
		}
		return
	}
	c := all.byName[id]
	if c == nil || c.confirmed.Has(l.node) || c.resting {
		return
	}
	c.confirmed = c.confirmed.With(l.node)
	c.wakeSubscribedLocked(l.node)
}

// Message records an announcement.
func (l *listener) Message(id, payload string) {
	l.channels.table.mu.Lock()
	defer l.channels.table.mu.Unlock()
	if c := l.channels.byName[id]; c != nil && !c.resting {
		c.announceLocked(l.node, payload)
	}
}

// Down wakes the waiters of a lost subscription, which then poll.
func (l *listener) Down(error) {
	all := l.channels
	all.table.mu.Lock()
	defer all.table.mu.Unlock()
	all.shared.confirmed = all.shared.confirmed.Without(l.node)
	for _, c := range all.byName {
		if c.confirmed.Has(l.node) {
			c.confirmed = c.confirmed.Without(l.node)
			if c.waiter != nil {
				c.waiter.wakeLocked(ByPoll)
			}
		}
	}
}

// subscribed has the channels of a waiter at the head of its queues. Table.mu guards it.
type subscribed struct {
	waiter   *Waiter
	channels []*channel // of the names that it awaits; empty if it has not subscribed
	before   bool       // it has subscribed before its first attempt and has not waited since
}

// beginLocked subscribes to the releases of names of the waiter, on every node that supports it, and to those of no
// other name: the waiter would count as one that comes for it. It reports whether this call subscribed to any.
func (s *subscribed) beginLocked(names []string) (first bool) {
	s.before = false
	t := s.waiter.table
	if t.closed || !t.channels.connectLocked() {
		return false
	}
	for _, name := range names {
		if c := t.channels.addLocked(name); c.waiter != s.waiter {
			c.waiter, first = s.waiter, true
			s.channels = append(s.channels, c)
		}
	}
	s.dropLocked(names)
	return first
}

// dropLocked ends the subscriptions to other names than these at once.
func (s *subscribed) dropLocked(names []string) {
	s.channels = slices.DeleteFunc(s.channels, func(c *channel) bool {
		if slices.Contains(names, c.of) {
			return false
		}
		c.waiter = nil
		c.all.removeLocked(c)
		return true
	})
}

// resumeLocked subscribes before the attempt if the channels are already confirmed, as for a
// process that contends for a name again. No release is then missed between the attempt and the
// wait, so no second attempt is necessary.
func (s *subscribed) resumeLocked() {
	all := &s.waiter.table.channels
	if s.channels == nil && all.table.isMajority(all.shared.confirmed) && all.confirmedLocked(s.waiter.names) {
		s.beginLocked(s.waiter.names)
		s.before = true
	}
}

// endLocked ends the use of the channels. They remain for a while, unless the waiter listened to some of its names only:
// otherwise the release would count this process as another one. A waiter that got the lock at once did not wait and does
// not prolong that. Otherwise a process that acquires a name again and again would never leave its channel.
func (s *subscribed) endLocked(linger time.Duration) {
	if len(s.channels) < len(s.waiter.names) {
		s.dropLocked(nil)
	}
	for _, c := range s.channels {
		if !s.before {
			c.keepUntil = s.waiter.table.now().Add(linger)
		}
		c.leaveLocked()
	}
	s.channels = nil
}

// listenAgainLocked ends a rest.
func (s *subscribed) listenAgainLocked() {
	for _, c := range s.channels {
		c.restEndsLocked()
	}
}

// forgetLocked forgets announcements by fewer nodes than a majority: what other nodes announce from now on may be
// what the next attempt needs.
func (s *subscribed) forgetLocked() {
	for _, c := range s.channels {
		if c.awaitsMoreLocked() {
			c.announced = 0
		}
	}
}

// graceLocked returns until when the waiter waits for more nodes to announce a release; 0 if it does not.
func (s *subscribed) graceLocked() (until clock.Instant) {
	for _, c := range s.channels {
		if c.awaitsMoreLocked() {
			until = max(until, c.firstAt.Add(AnnounceGrace))
		}
	}
	return until
}

// confirmedLocked reports whether the waiter is told of releases by a majority of the nodes. Any release then reaches
// it by one of them at least.
func (s *subscribed) confirmedLocked() bool { return s.waiter.table.isMajority(s.nodesLocked()) }

// nodesLocked returns the nodes that tell the waiter of releases: all its channels are confirmed there, and that of
// all waiters.
func (s *subscribed) nodesLocked() quorum.Nodes {
	if len(s.channels) == 0 {
		return 0
	}
	nodes := s.waiter.table.channels.shared.confirmed
	for _, c := range s.channels {
		nodes &= c.confirmed
	}
	return nodes
}
