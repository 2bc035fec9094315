package pool

import (
	"fmt"
	"maps"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// parked are the undos that the server answered by an error. They have no timers of their own:
// one of them at a time is sent, as a probe. If the server executes the probe the others follow.
// The oldest is the next probe, so an undo with an error of its own delays the others by a
// second, and not forever. A probe is an undo and never a PING, because a server with
// CLUSTERDOWN, MISCONF, OOM or NOREPLICAS answers PING. All fields are guarded by pipeline.mu.
type parked struct {
	waiting ring // the oldest first
	timer   clock.Timer
	armed   bool
	probes  uint8 // since one was executed
}

// maxParked bounds the undos of a node that will be sent once more. Further ones are dropped.
const maxParked = 10_000

// followers is the number of parked undos that follow an executed one. Each of them has followers
// too, so all are sent within some round trips, and few to a server that fails again.
const followers = 2

// end drops all.
func (p *parked) end() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.waiting, p.armed = ring{}, false
}

// parkLocked parks an undo.
func (pl *pipeline) parkLocked(c *wire.Command) {
	if pl.parked.waiting.len() == 0 && c.Retries == 1 {
		pl.parked.probes = 0
	}
	pl.parked.waiting.push(c)
	pl.armProbeLocked()
}

// armProbeLocked starts the timer while undos are parked.
func (pl *pipeline) armProbeLocked() {
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

// probeSoonLocked advances the next probe, because the connection is new.
func (pl *pipeline) probeSoonLocked() {
	pl.parked.probes = 0
	if pl.parked.armed {
		pl.parked.timer.Reset(retryDelay(0))
	}
}

// probeBetweenLocked schedules the next probe half way between two health checks of an unhealthy
// node.
func (pl *pipeline) probeBetweenLocked() {
	if p := &pl.parked; p.armed && retryDelay(p.probes) > unhealthyEvery {
		p.timer.Reset(unhealthyEvery)
	}
}

// probe ends the undos that are outdated, and sends the oldest of the others. Both happen after
// the mutex is released: failAll answers commands, and requeue takes the mutex.
func (pl *pipeline) probe() {
	pl.mu.Lock()
	pl.parked.armed = false
	dropped := pl.dropOutdatedLocked()
	var next *wire.Command
	if pl.conn != nil || pl.drained { // a drained pipeline hands it back
		next = pl.unparkLocked()
	}
	pl.parked.probes = min(pl.parked.probes, 10) + 1
	pl.armProbeLocked()
	pl.mu.Unlock()
	failAll(dropped)
	if next != nil {
		pl.requeue(next)
	}
}

// dropOutdatedLocked returns the undos whose keys have expired. Those whose acquire may still be
// executed stay without an owner, as in failUnsent.
func (pl *pipeline) dropOutdatedLocked() (dropped []droppedCommand) {
	var stale expiry
	waiting := &pl.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		if past := stale.expired(c); past || c.Clock == nil && !pl.mayStillExecuteLocked(c.Token) {
			pl.unbookLocked(c.Request)
			dropped = append(dropped, droppedCommand{c, wire.ErrExpired})
			if !past || !pl.mayStillExecuteLocked(c.Token) || !pl.node.admitsUndo() {
				continue
			}
			c = detachedUndo(c)
			pl.retries[c.Request] = &retryTimer{command: c}
		}
		waiting.push(c)
	}
	return dropped
}

// unparkLocked removes and returns the oldest undo, or nil.
func (pl *pipeline) unparkLocked() *wire.Command {
	if pl.parked.waiting.len() == 0 {
		return nil
	}
	c := pl.parked.waiting.pop()
	pl.unbookLocked(c.Request)
	return c
}

// unparkIfLocked removes and returns those that satisfy a condition.
func (pl *pipeline) unparkIfLocked(condition func(c *wire.Command) bool) (taken []*wire.Command) {
	waiting := &pl.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		if !condition(c) {
			waiting.push(c)
			continue
		}
		pl.unbookLocked(c.Request)
		taken = append(taken, c)
	}
	return taken
}

// sendParked sends the followers of an executed undo. It sends none while the queue is long: the
// next probe will have followers.
func (pl *pipeline) sendParked() {
	var next [followers]*wire.Command
	pl.mu.Lock()
	pl.parked.probes = 0
	for i := range next {
		if pl.queue.len() < maxBatch {
			next[i] = pl.unparkLocked()
		}
	}
	pl.mu.Unlock()
	for _, c := range next {
		if c != nil {
			pl.requeue(c)
		}
	}
}

// whole returns the node that the user knows: for a shard, the Cluster.
func (n *Node) whole() *Node {
	if n.shard != nil {
		return n.shard.cluster.node
	}
	return n
}

// admitsUndo counts an undo that will be sent once more. It returns false, and counts a dropped
// undo, if there are too many.
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

// releaseUndo reverts admitsUndo.
func (n *Node) releaseUndo() {
	n = n.whole()
	if n.count.parked.Add(-1) == 0 {
		n.count.dropping.Store(false)
	}
}

// noteAcquire records an acquire that was surely not executed: its final answer on this
// connection says so, and it was sent once, to this server. Its undo, which follows, has nothing
// to undo. Only the reader calls it.
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

// forgetUnexecuted drops acquires whose undo never comes here: it went to another shard, or the
// lock was detached. Only the reader calls it.
func (pc *pipeConn) forgetUnexecuted() {
	now := pc.pipeline.node.cfg.Clock.Now()
	maps.DeleteFunc(pc.unexecuted, func(_ string, until clock.Instant) bool { return !now.Before(until) })
}

// nothingToUndo reports whether an answered undo surely has nothing to undo, and drops the record
// of its acquire. Only the reader calls it.
func (pc *pipeConn) nothingToUndo(c *wire.Command) bool {
	_, unexecuted := pc.unexecuted[c.Token]
	delete(pc.unexecuted, c.Token)
	return unexecuted && c.AcquiredHere
}
