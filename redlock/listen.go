package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// lingering is how long a subscription is kept after the last one who waited: who
// contends for a name often does so again.
const lingering = time.Second

// echo is how long after the first node's message a contender waits for those of others:
// one node alone is no quorum, but messages may be lost.
const echo = 2 * time.Millisecond

// topic is a name's channel while somebody listens to it.
type topic struct {
	ws      *waiters
	channel string
	stands  []bool // by node: from now on messages arrive
	users   map[*waiter]struct{}
	latest  clock.Instant // when a release was last heard of
	until   clock.Instant // how long it is kept after the last one who waited
	alarm   lingerAlarm
}

// listen subscribes a head to its names, on every node that can be subscribed to.
// Called under mu.
func (ws *waiters) listen(v *waiter) {
	if ws.closed || !ws.open() {
		return
	}
	for _, key := range ws.l.keys(v.wish.names) {
		channel := wire.FreePrefix + key
		t := ws.topics[channel]
		if t == nil {
			t = &topic{ws: ws, channel: channel, stands: make([]bool, len(ws.l.nodes)), users: make(map[*waiter]struct{})}
			ws.topics[channel] = t
			for _, ear := range ws.ears {
				if ear != nil {
					ear.Add(channel)
				}
			}
		}
		ws.l.alarms.Clear(&t.alarm.Alarm)
		t.users[v] = struct{}{}
		v.topics = append(v.topics, t)
	}
}

// rejoin listens from before the attempt on where the channels stand already, as they do
// for whoever contends for a name again: then nothing can be missed between the attempt
// and the wait, and no second attempt is needed to make sure. Called under mu.
func (ws *waiters) rejoin(v *waiter) {
	if len(ws.topics) == 0 || v.topics != nil {
		return
	}
	for _, name := range v.wish.names {
		if t := ws.topic(name); t == nil || !t.standing() {
			return
		}
	}
	ws.listen(v)
	v.early = true
}

// topic finds a name's topic; nil when nobody listens, nor did just now. Called under mu.
func (ws *waiters) topic(name string) *topic {
	if len(ws.topics) == 0 {
		return nil // as mostly: no channel to be named
	}
	return ws.topics[wire.FreePrefix+ws.l.set.prefix+name]
}

// subscriber is a node that can be subscribed to; see pool.Node.
type subscriber interface {
	Subscribe(pool.Listener) *pool.Subscription
}

// open makes the subscriptions' connections, and reports whether there are any. Called
// under mu.
func (ws *waiters) open() (some bool) {
	if ws.ears == nil {
		ws.ears = make([]*pool.Subscription, len(ws.l.nodes))
		for i, n := range ws.l.nodes {
			if s, ok := n.(subscriber); ok {
				ws.ears[i] = s.Subscribe(&ear{ws: ws, node: i})
			}
		}
	}
	for _, e := range ws.ears {
		some = some || e != nil
	}
	return some
}

// unlisten takes a head's subscriptions back. Who got the lock at once did not wait: or the
// channels of a name that one process goes on taking were never left. Called under mu.
func (ws *waiters) unlisten(v *waiter) {
	if v.topics == nil {
		return
	}
	for _, t := range v.topics {
		delete(t.users, v)
		if !v.early {
			t.until = ws.l.now().Add(lingering)
		}
		if len(t.users) == 0 && !ws.closed {
			t.alarm.topic = t
			ws.l.alarms.Set(&t.alarm.Alarm, t.until, lingering, &t.alarm)
		}
	}
	v.topics = nil
	ws.l.alarms.Clear(&v.alarm)
}

// close ends the subscriptions.
func (ws *waiters) close() {
	ws.mu.Lock()
	ws.closed = true
	ears := ws.ears
	for _, t := range ws.topics {
		ws.l.alarms.Clear(&t.alarm.Alarm)
	}
	for _, p := range ws.names {
		ws.tidy(p)
	}
	ws.mu.Unlock()
	for _, e := range ears {
		if e != nil {
			e.Close()
		}
	}
}

// standing reports whether the channel stands on a majority of the nodes. Called under mu.
func (t *topic) standing() bool {
	nodes := 0
	for _, stands := range t.stands {
		if stands {
			nodes++
		}
	}
	return nodes >= quorum.Majority(len(t.stands))
}

// standing reports on how many nodes all of a head's channels stand. Called under mu.
func (v *waiter) standing() (nodes int) {
	if len(v.topics) == 0 {
		return 0
	}
	for i := range v.topics[0].stands {
		all := true
		for _, t := range v.topics {
			all = all && t.stands[i]
		}
		if all {
			nodes++
		}
	}
	return nodes
}

// ear hears what one node says. It is called by the subscription's goroutine.
type ear struct {
	ws   *waiters
	node int
}

// Subscribed wakes those who wait for the subscription to stand: what was released before
// was not heard of.
func (e *ear) Subscribed(channel string) {
	e.ws.mu.Lock()
	defer e.ws.mu.Unlock()
	t := e.ws.topics[channel]
	if t == nil || t.stands[e.node] {
		return
	}
	t.stands[e.node] = true
	for v := range t.users {
		if v.standing() == quorum.Majority(len(e.ws.l.nodes)) {
			v.stir(bySubscription)
		}
	}
}

// Message wakes a head when so many nodes announced that a quorum can be free, or soon
// after the first.
func (e *ear) Message(channel, _ string) {
	e.ws.mu.Lock()
	defer e.ws.mu.Unlock()
	t := e.ws.topics[channel]
	if t == nil {
		return
	}
	t.latest = e.ws.l.now()
	for v := range t.users {
		v.hear(e.node)
	}
}

// Down: until it stands again those who wait poll.
func (e *ear) Down(error) {
	e.ws.mu.Lock()
	defer e.ws.mu.Unlock()
	for _, t := range e.ws.topics {
		if t.stands[e.node] {
			t.stands[e.node] = false
			for v := range t.users {
				v.stir(byPoll)
			}
		}
	}
}

// hear books a node's announcement. Called under waiters.mu.
func (v *waiter) hear(node int) {
	if v.said == nil {
		v.said = make([]bool, len(v.l.nodes))
	}
	if v.said[node] {
		return
	}
	v.said[node] = true
	now, at := v.l.now(), v.quiet
	if v.heard++; v.heard < quorum.Majority(len(v.l.nodes)) {
		at = max(at, now.Add(echo))
	}
	if left := at.Sub(now); left > 0 {
		v.l.alarms.Set(&v.alarm, at, left, v)
		return
	}
	v.stir(byMessage)
}

// Ring wakes it some time after the first announcement.
func (v *waiter) Ring(*alarm.Alarm) {
	ws := v.l.waiters
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch left := v.quiet.Sub(v.l.now()); {
	case v.heard == 0:
	case left > 0:
		v.l.alarms.Set(&v.alarm, v.quiet, left, v)
	default:
		v.stir(byMessage)
	}
}

// lingerAlarm ends a topic that nobody listens to any more.
type lingerAlarm struct {
	alarm.Alarm
	topic *topic
}

// Ring unsubscribes.
func (a *lingerAlarm) Ring(*alarm.Alarm) {
	t := a.topic
	t.ws.mu.Lock()
	defer t.ws.mu.Unlock()
	if len(t.users) > 0 || t.ws.topics[t.channel] != t {
		return
	}
	delete(t.ws.topics, t.channel)
	for _, ear := range t.ws.ears {
		if ear != nil {
			ear.Remove(t.channel)
		}
	}
}
