package pool

import (
	"fmt"
	"maps"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// parked are the undos that the server answered by an error. They have no timers of their
// own: one of them at a time is sent, as a probe. When the server executes it the others follow.
// The oldest is the next probe, so that one whose error is its own delays the others by a
// second, and not for good. A
// probe is an undo and never a PING, which CLUSTERDOWN, MISCONF, OOM and NOREPLICAS let pass.
// All is guarded by lane.mu.
type parked struct {
	waiting ring // the oldest first
	timer   clock.Timer
	armed   bool
	probes  uint8 // since one was executed
}

// maxParked bounds the undos of a node that will be sent once more. One more is dropped.
const maxParked = 10_000

// followers is how many parked undos follow one that was executed. As each of them has
// followers, all are sent within some round trips, and few to a server that fails again.
const followers = 2

// end forgets all.
func (p *parked) end() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.waiting, p.armed = ring{}, false
}

// park books an undo. Called under mu.
func (l *lane) park(c *wire.Command) {
	if l.parked.waiting.len() == 0 && c.Retries == 1 {
		l.parked.probes = 0
	}
	l.parked.waiting.push(c)
	l.armProbe()
}

// armProbe sets the timer while undos wait. Called under mu.
func (l *lane) armProbe() {
	p := &l.parked
	if p.armed || p.waiting.len() == 0 {
		return
	}
	p.armed = true
	pause := doubled(p.probes)
	if p.timer == nil {
		p.timer = l.node.cfg.Clock.AfterFunc(pause, l.probe)
		return
	}
	p.timer.Reset(pause)
}

// probeSoon has the next probe sent soon: the connection is new. Called under mu.
func (l *lane) probeSoon() {
	l.parked.probes = 0
	if l.parked.armed {
		l.parked.timer.Reset(doubled(0))
	}
}

// probeBetween has the next probe sent half way between two checks of a node that is
// checked often. Called under mu.
func (l *lane) probeBetween() {
	if p := &l.parked; p.armed && doubled(p.probes) > lookUnfit {
		p.timer.Reset(lookUnfit)
	}
}

// probe ends the undos that are out of date, and sends the oldest of the others.
func (l *lane) probe() {
	l.mu.Lock()
	l.parked.armed = false
	dropped := l.dropOutdated()
	var next *wire.Command
	if l.link != nil || l.letGo { // where it was let go, it is handed back
		next = l.unpark()
	}
	l.parked.probes = min(l.parked.probes, 10) + 1
	l.armProbe()
	l.mu.Unlock()
	dropAll(dropped)
	if next != nil {
		l.again(next)
	}
}

// dropOutdated answers the undos whose keys have expired. Those whose acquire may still be
// executed are kept without a caller, as in failQueued. Called under mu.
func (l *lane) dropOutdated() (dropped []drop) {
	var stale staleness
	waiting := &l.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		if past := stale.past(c); past || c.Clock == nil && !l.orphaned(c.Token) {
			l.unbook(c.Request)
			dropped = append(dropped, drop{c, wire.ErrExpired})
			if !past || !l.orphaned(c.Token) || !l.node.admitsUndo() {
				continue
			}
			c = legacy(c)
			l.repeats[c.Request] = &repetition{command: c}
		}
		waiting.push(c)
	}
	return dropped
}

// unpark takes the oldest; nil: none is parked. Called under mu.
func (l *lane) unpark() *wire.Command {
	if l.parked.waiting.len() == 0 {
		return nil
	}
	c := l.parked.waiting.pop()
	l.unbook(c.Request)
	return c
}

// unparkIf takes those that a condition is true of. Called under mu.
func (l *lane) unparkIf(condition func(c *wire.Command) bool) (taken []*wire.Command) {
	waiting := &l.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		if !condition(c) {
			waiting.push(c)
			continue
		}
		l.unbook(c.Request)
		taken = append(taken, c)
	}
	return taken
}

// sendParked sends the followers of an undo that the server executed. While the queue is
// long it sends none: the next probe will have followers, too.
func (l *lane) sendParked() {
	var next [followers]*wire.Command
	l.mu.Lock()
	l.parked.probes = 0
	for i := range next {
		if l.queue.len() < batchMost {
			next[i] = l.unpark()
		}
	}
	l.mu.Unlock()
	for _, c := range next {
		if c != nil {
			l.again(c)
		}
	}
}

// whole is the node that the user knows: of a member the Cluster.
func (n *Node) whole() *Node {
	if n.member != nil {
		return n.member.cluster.node
	}
	return n
}

// admitsUndo counts an undo that will be sent once more, unless there are too many.
func (n *Node) admitsUndo() bool {
	n = n.whole()
	if n.count.parked.Add(1) <= maxParked {
		return true
	}
	n.releaseUndo()
	if n.count.dropped.Add(1); !n.count.dropping.Swap(true) {
		n.log("undos are dropped", errTooManyParked)
	}
	return false
}

var errTooManyParked = fmt.Errorf("pool: %d undos wait already: further ones are dropped, and their keys remain until their TTL", maxParked)

// releaseUndo takes one back.
func (n *Node) releaseUndo() {
	n = n.whole()
	if n.count.parked.Add(-1) == 0 {
		n.count.dropping.Store(false)
	}
}

// noteAcquire remembers an acquire that surely executed nothing on this connection: its final
// answer says so, and it was sent once, to this server. Its undo, which is behind it, has nothing
// to undo. Called by the reader.
func (k *link) noteAcquire(c *wire.Command, r wire.Reply) {
	if r.Err == nil || c.Op != wire.Acquire || c.UsesEval() || c.Redirects > 0 || k.lane.node.cfg.Proxied {
		return
	}
	if !saysUnexecuted(r.Err) || len(k.unexecuted) >= maxParked {
		return
	}
	if k.unexecuted == nil {
		k.unexecuted = make(map[string]clock.Instant)
	}
	k.unexecuted[c.Token] = k.lane.node.cfg.Clock.Now().Add(2 * c.TTL)
}

// forgetUnexecuted drops acquires whose undo never comes here: it went to another member, or the
// lock was detached. Called by the reader.
func (k *link) forgetUnexecuted() {
	now := k.lane.node.cfg.Clock.Now()
	maps.DeleteFunc(k.unexecuted, func(_ string, until clock.Instant) bool { return !now.Before(until) })
}

// nothingToUndo reports whether an answered undo surely has nothing to undo, and forgets
// its acquire. Called by the reader.
func (k *link) nothingToUndo(c *wire.Command) bool {
	_, unexecuted := k.unexecuted[c.Token]
	delete(k.unexecuted, c.Token)
	return unexecuted && c.AcquiredHere
}
