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
func (pl *pipeline) park(c *wire.Command) {
	if pl.parked.waiting.len() == 0 && c.Retries == 1 {
		pl.parked.probes = 0
	}
	pl.parked.waiting.push(c)
	pl.armProbe()
}

// armProbe sets the timer while undos wait. Called under mu.
func (pl *pipeline) armProbe() {
	p := &pl.parked
	if p.armed || p.waiting.len() == 0 {
		return
	}
	p.armed = true
	pause := retryDelay(p.probes)
	if p.timer == nil {
		p.timer = pl.node.cfg.Clock.AfterFunc(pause, pl.probe)
		return
	}
	p.timer.Reset(pause)
}

// probeSoon has the next probe sent soon: the connection is new. Called under mu.
func (pl *pipeline) probeSoon() {
	pl.parked.probes = 0
	if pl.parked.armed {
		pl.parked.timer.Reset(retryDelay(0))
	}
}

// probeBetween has the next probe sent half way between two checks of a node that is
// checked often. Called under mu.
func (pl *pipeline) probeBetween() {
	if p := &pl.parked; p.armed && retryDelay(p.probes) > unhealthyEvery {
		p.timer.Reset(unhealthyEvery)
	}
}

// probe ends the undos that are out of date, and sends the oldest of the others.
func (pl *pipeline) probe() {
	pl.mu.Lock()
	pl.parked.armed = false
	dropped := pl.dropOutdated()
	var next *wire.Command
	if pl.conn != nil || pl.drained { // where it was let go, it is handed back
		next = pl.unpark()
	}
	pl.parked.probes = min(pl.parked.probes, 10) + 1
	pl.armProbe()
	pl.mu.Unlock()
	failAll(dropped)
	if next != nil {
		pl.requeue(next)
	}
}

// dropOutdated answers the undos whose keys have expired. Those whose acquire may still be
// executed are kept without a caller, as in failUnsent. Called under mu.
func (pl *pipeline) dropOutdated() (dropped []droppedCommand) {
	var stale expiry
	waiting := &pl.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		if past := stale.expired(c); past || c.Clock == nil && !pl.mayStillExecute(c.Token) {
			pl.unbook(c.Request)
			dropped = append(dropped, droppedCommand{c, wire.ErrExpired})
			if !past || !pl.mayStillExecute(c.Token) || !pl.node.admitsUndo() {
				continue
			}
			c = detachedUndo(c)
			pl.retries[c.Request] = &retryTimer{command: c}
		}
		waiting.push(c)
	}
	return dropped
}

// unpark takes the oldest; nil: none is parked. Called under mu.
func (pl *pipeline) unpark() *wire.Command {
	if pl.parked.waiting.len() == 0 {
		return nil
	}
	c := pl.parked.waiting.pop()
	pl.unbook(c.Request)
	return c
}

// unparkIf takes those that a condition is true of. Called under mu.
func (pl *pipeline) unparkIf(condition func(c *wire.Command) bool) (taken []*wire.Command) {
	waiting := &pl.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		if !condition(c) {
			waiting.push(c)
			continue
		}
		pl.unbook(c.Request)
		taken = append(taken, c)
	}
	return taken
}

// sendParked sends the followers of an undo that the server executed. While the queue is
// long it sends none: the next probe will have followers, too.
func (pl *pipeline) sendParked() {
	var next [followers]*wire.Command
	pl.mu.Lock()
	pl.parked.probes = 0
	for i := range next {
		if pl.queue.len() < maxBatch {
			next[i] = pl.unpark()
		}
	}
	pl.mu.Unlock()
	for _, c := range next {
		if c != nil {
			pl.requeue(c)
		}
	}
}

// whole is the node that the user knows: of a member the Cluster.
func (n *Node) whole() *Node {
	if n.shard != nil {
		return n.shard.cluster.node
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
func (pc *pipeConn) noteAcquire(c *wire.Command, r wire.Reply) {
	if r.Err == nil || c.Op != wire.Acquire || c.UsesEval() || c.Redirects > 0 || pc.pipeline.node.cfg.Proxied {
		return
	}
	if !saysUnexecuted(r.Err) || len(pc.unexecuted) >= maxParked {
		return
	}
	if pc.unexecuted == nil {
		pc.unexecuted = make(map[string]clock.Instant)
	}
	pc.unexecuted[c.Token] = pc.pipeline.node.cfg.Clock.Now().Add(2 * c.TTL)
}

// forgetUnexecuted drops acquires whose undo never comes here: it went to another member, or the
// lock was detached. Called by the reader.
func (pc *pipeConn) forgetUnexecuted() {
	now := pc.pipeline.node.cfg.Clock.Now()
	maps.DeleteFunc(pc.unexecuted, func(_ string, until clock.Instant) bool { return !now.Before(until) })
}

// nothingToUndo reports whether an answered undo surely has nothing to undo, and forgets
// its acquire. Called by the reader.
func (pc *pipeConn) nothingToUndo(c *wire.Command) bool {
	_, unexecuted := pc.unexecuted[c.Token]
	delete(pc.unexecuted, c.Token)
	return unexecuted && c.AcquiredHere
}
