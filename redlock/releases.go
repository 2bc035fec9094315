package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool"
)

// linger is how long a subscription remains after its last waiter: a process often contends for the
// same name again.
const linger = time.Second

// announceGrace is how long after the first node's announcement a waiter waits for those of other
// nodes. One node is not a quorum, but announcements may be lost.
const announceGrace = 2 * time.Millisecond

// releaseChannel is the release channel of a name that is subscribed to.
type releaseChannel struct {
	table         *waitTable
	channel       string
	confirmed     []bool // by node: the subscription is in effect
	waiters       map[*waiter]struct{}
	lastAnnounced clock.Instant // time of the last announcement
	keepUntil     clock.Instant // end of linger
	alarm         lingerTimer
}

// subscribeLocked subscribes a head to its names, on every node that supports subscriptions.
func (wt *waitTable) subscribeLocked(v *waiter) {
	if wt.closed || !wt.connectLocked() {
		return
	}
	for _, key := range wt.l.keys(v.req.names) {
		channel := command.FreePrefix + key
		t := wt.channels[channel]
		if t == nil {
			t = &releaseChannel{table: wt, channel: channel, confirmed: make([]bool, len(wt.l.nodes)), waiters: make(map[*waiter]struct{})}
			wt.channels[channel] = t
			for _, ear := range wt.subs {
				if ear != nil {
					ear.Add(channel)
				}
			}
		}
		wt.l.alarms.Clear(&t.alarm.Alarm)
		t.waiters[v] = struct{}{}
		v.channels = append(v.channels, t)
	}
}

// resubscribeLocked subscribes before the attempt if the channels are already confirmed, as for a
// process that contends for a name again. No release is then missed between the attempt and the
// wait, so no second attempt is necessary.
func (wt *waitTable) resubscribeLocked(v *waiter) {
	if len(wt.channels) == 0 || v.channels != nil {
		return
	}
	for _, name := range v.req.names {
		if t := wt.channelOfLocked(name); t == nil || !t.confirmedOnMajorityLocked() {
			return
		}
	}
	wt.subscribeLocked(v)
	v.subscribedBefore = true
}

// channelOfLocked returns the release channel of a name, or nil if there is no subscription.
func (wt *waitTable) channelOfLocked(name string) *releaseChannel {
	if len(wt.channels) == 0 {
		return nil // the usual case; it avoids building the channel's name
	}
	return wt.channels[command.FreePrefix+wt.l.set.prefix+name]
}

// subscriber is a node that supports subscriptions: see pool.Node.
type subscriber interface {
	Subscribe(pool.Listener) *pool.Subscription
}

// connectLocked makes the subscription of each node, and reports whether there is any.
func (wt *waitTable) connectLocked() (some bool) {
	if wt.subs == nil {
		wt.subs = make([]*pool.Subscription, len(wt.l.nodes))
		for i, n := range wt.l.nodes {
			if s, ok := n.(subscriber); ok {
				wt.subs[i] = s.Subscribe(&nodeListener{table: wt, node: i})
			}
		}
	}
	for _, e := range wt.subs {
		some = some || e != nil
	}
	return some
}

// unsubscribeLocked ends a head's use of its channels. A waiter that got the lock at once did not
// wait and does not prolong linger. Otherwise a process that acquires a name again and again would
// never leave its channel.
func (wt *waitTable) unsubscribeLocked(v *waiter) {
	if v.channels == nil {
		return
	}
	for _, t := range v.channels {
		delete(t.waiters, v)
		if !v.subscribedBefore {
			t.keepUntil = wt.l.now().Add(linger)
		}
		if len(t.waiters) == 0 && !wt.closed {
			t.alarm.channel = t
			wt.l.alarms.Set(&t.alarm.Alarm, t.keepUntil, linger, &t.alarm)
		}
	}
	v.channels = nil
	wt.l.alarms.Clear(&v.alarm)
}

// close ends the subscriptions.
func (wt *waitTable) close() {
	wt.mu.Lock()
	wt.closed = true
	subs := wt.subs
	for _, t := range wt.channels {
		wt.l.alarms.Clear(&t.alarm.Alarm)
	}
	for _, p := range wt.names {
		wt.removeIfIdleLocked(p)
	}
	wt.mu.Unlock()
	for _, sub := range subs {
		if sub != nil {
			sub.Close()
		}
	}
}

// confirmedOnMajorityLocked reports whether the channel is confirmed on a majority of the nodes.
// The caller holds waitTable.mu.
func (t *releaseChannel) confirmedOnMajorityLocked() bool {
	nodes := 0
	for _, confirmed := range t.confirmed {
		if confirmed {
			nodes++
		}
	}
	return nodes >= quorum.Majority(len(t.confirmed))
}

// confirmedNodesLocked returns on how many nodes all channels of the waiter are confirmed. The
// caller holds waitTable.mu.
func (v *waiter) confirmedNodesLocked() (nodes int) {
	if len(v.channels) == 0 {
		return 0
	}
	for i := range v.channels[0].confirmed {
		all := true
		for _, t := range v.channels {
			all = all && t.confirmed[i]
		}
		if all {
			nodes++
		}
	}
	return nodes
}

// nodeListener receives the announcements of one node. The subscription's goroutine calls it.
type nodeListener struct {
	table *waitTable
	node  int
}

// Subscribed wakes the waiters whose subscription is now confirmed on a majority. They may have
// missed a release that came before.
func (e *nodeListener) Subscribed(channel string) {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	t := e.table.channels[channel]
	if t == nil || t.confirmed[e.node] {
		return
	}
	t.confirmed[e.node] = true
	for v := range t.waiters {
		if v.confirmedNodesLocked() == quorum.Majority(len(e.table.l.nodes)) {
			v.wakeForLocked(bySubscription)
		}
	}
}

// Message wakes a waiter when so many nodes have announced a release that a quorum can be free, or
// soon after the first one.
func (e *nodeListener) Message(channel, _ string) {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	t := e.table.channels[channel]
	if t == nil {
		return
	}
	t.lastAnnounced = e.table.l.now()
	for v := range t.waiters {
		v.noteAnnouncementLocked(e.node)
	}
}

// Down wakes the waiters of a lost subscription, which then poll.
func (e *nodeListener) Down(error) {
	e.table.mu.Lock()
	defer e.table.mu.Unlock()
	for _, t := range e.table.channels {
		if t.confirmed[e.node] {
			t.confirmed[e.node] = false
			for v := range t.waiters {
				v.wakeForLocked(byPoll)
			}
		}
	}
}

// noteAnnouncementLocked records a node's announcement. The caller holds waitTable.mu.
func (v *waiter) noteAnnouncementLocked(node int) {
	if v.announcedBy == nil {
		v.announcedBy = make([]bool, len(v.l.nodes))
	}
	if v.announcedBy[node] {
		return
	}
	v.announcedBy[node] = true
	now, at := v.l.now(), v.quiet
	if v.announced++; v.announced < quorum.Majority(len(v.l.nodes)) {
		at = max(at, now.Add(announceGrace))
	}
	if left := at.Sub(now); left > 0 {
		v.l.alarms.Set(&v.alarm, at, left, v)
		return
	}
	v.wakeForLocked(byMessage)
}

// Fire wakes the waiter some time after the first announcement.
func (v *waiter) Fire(*alarm.Alarm) {
	ws := v.l.waitTable
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch left := v.quiet.Sub(v.l.now()); {
	case v.announced == 0:
	case left > 0:
		v.l.alarms.Set(&v.alarm, v.quiet, left, v)
	default:
		v.wakeForLocked(byMessage)
	}
}

// lingerTimer ends a channel that has no waiter any more.
type lingerTimer struct {
	alarm.Alarm
	channel *releaseChannel
}

// Fire unsubscribes.
func (a *lingerTimer) Fire(*alarm.Alarm) {
	t := a.channel
	t.table.mu.Lock()
	defer t.table.mu.Unlock()
	if len(t.waiters) > 0 || t.table.channels[t.channel] != t {
		return
	}
	delete(t.table.channels, t.channel)
	for _, ear := range t.table.subs {
		if ear != nil {
			ear.Remove(t.channel)
		}
	}
}
