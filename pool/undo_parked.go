package pool

import (
	"fmt"
	"maps"
	"math"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
)

// parked are the undos that the server answered by an error. They have no timers of their own:
// one at a time is sent as a probe. When the server executes it, the others follow.
//
// The oldest is the next probe. So an undo whose error concerns only itself delays the others by
// a second, and not until its end. A probe is an undo and never a PING, because CLUSTERDOWN,
// MISCONF, OOM and NOREPLICAS let a PING pass. All fields are guarded by pipeline.mu.
type parked struct {
	waiting ring        // the oldest is first
	timer   timer.Alarm // of probe: set while undos wait
	probes  uint8       // number of probes since one was executed
}

// maxParked bounds the undos of a node that will be sent once more. A further undo is dropped.
const maxParked = 10_000

// followers is how many parked undos follow one that was executed. Each of them has followers in
// turn, so all are sent within a few round trips, but few to a server that fails again.
const followers = 2

// endRetriesLocked forgets the acquires that may still be executed, and returns the parked undos, which
// will not be sent. It is for a pipeline that is closed or drained.
func (pl *pipeline) endRetriesLocked() (left []*command.Command) {
	pl.unacked.Clear()
	pl.unacked.timer.Stop()
	pl.parked.timer.Stop() // a probe that is already firing finds no undo
	return pl.unparkIfLocked(func(*command.Command) bool { return true })
}

// parkLocked parks an answered undo and makes sure that a probe comes. The caller has counted it with
// admitsUndo. If it was perhaps executed, an earlier sending may have undone what the next one misses.
func (pl *pipeline) parkLocked(c *command.Command, perhaps bool) {
	p := &pl.parked
	first := p.waiting.len() == 0
	if first && c.Retries == 0 { // it failed for the first time: the interval begins again
		p.probes = 0
	}
	next := &command.Command{Request: c.Request, To: c.To, Node: c.Node, Retries: min(c.Retries, math.MaxUint8-1) + 1}
	next.SetAsking(c.Asking()) // it goes to the same shard
	if perhaps {
		next.MarkResend()
	}
	p.waiting.push(next)
	if first {
		pl.probeLaterLocked()
	}
}

// probeLaterLocked sets the timer of the next probe if undos wait.
func (pl *pipeline) probeLaterLocked() {
	if p := &pl.parked; p.waiting.len() > 0 {
		p.timer.Set(pl.node.cfg.Clock, retryDelay(p.probes), pl.probe)
	}
}

// probeSoonLocked brings the next probe forward on a new connection, which may reach a server
// that executes undos again.
func (pl *pipeline) probeSoonLocked() {
	pl.parked.probes = 0
	pl.probeLaterLocked()
}

// probe is the timer's function. It drops the undos that have expired, and sends the oldest of
// the others.
func (pl *pipeline) probe() {
	now := pl.node.membership().Clock.Now() // once for all: there may be 10,000
	pl.mu.Lock()
	late := pl.unparkIfLocked(func(c *command.Command) bool { return c.Expired(now) })
	if pl.conn != nil {
		pl.sendParkedLocked(1)
	}
	pl.parked.probes = min(pl.parked.probes, 10) + 1 // so that the interval doubles, until an undo is executed
	pl.probeLaterLocked()
	pl.mu.Unlock()
	for _, c := range late { // without mu, because this calls their owners
		c.Fail(command.ErrExpired)
	}
}

// unparkIfLocked removes and returns the undos for which a condition is true. The others keep
// their order.
func (pl *pipeline) unparkIfLocked(condition func(c *command.Command) bool) (taken []*command.Command) {
	waiting := &pl.parked.waiting
	for range waiting.len() {
		c := waiting.pop()
		// One round through the ring, as in pruneLocked.
		if !condition(c) {
			waiting.push(c)
			continue
		}
		pl.node.releaseUndo()
		taken = append(taken, c)
	}
	return taken
}

// followParkedLocked sends the followers of an undo that the server executed.
func (pl *pipeline) followParkedLocked() {
	pl.parked.probes = 0 // should one fail again, the interval begins at its shortest
	pl.sendParkedLocked(followers)
}

// sendParkedLocked queues the oldest undos, at most so many. It queues none while the queue is long: the next
// probe will have followers, too.
func (pl *pipeline) sendParkedLocked(most int) {
	for range most {
		if pl.parked.waiting.len() > 0 && pl.queue.len() < maxBatch {
			pl.queue.push(pl.parked.waiting.pop())
			pl.node.releaseUndo()
		}
	}
	pl.wakeLocked()
}

// admitsUndo counts an undo that will be sent once more, and reports false if there are too many.
// The counters are atomic, because all pipelines of a node, and all shards of a Cluster, share
// them.
func (n *Node) admitsUndo() bool {
	n = n.whole
	// Counted first and taken back if it was too many, so that concurrent calls never exceed the
	// bound.
	if n.count.parked.Add(1) <= maxParked {
		return true
	}
	n.releaseUndo()
	n.countDropped(errTooManyParked)
	return false
}

// countDropped counts an undo that is not kept, and logs the first one, until no undo is parked.
func (n *Node) countDropped(why error) {
	n = n.whole
	if n.count.dropped.Add(1); !n.count.dropping.Swap(true) {
		n.log("undos are dropped", why)
	}
}

var errTooManyParked = fmt.Errorf(
	"pool: %d undos are waiting: further undos are dropped, and their keys remain until their TTL", maxParked)

// releaseUndo removes an undo from the count. When none is left, the next dropped undo is logged
// again.
func (n *Node) releaseUndo() {
	n = n.whole
	if n.count.parked.Add(-1) == 0 {
		n.count.dropping.Store(false)
	}
}

// noteAcquire remembers an acquire that surely executed nothing on this connection: its final
// answer says so, and it was sent once, to this server. Its undo, which is queued behind it, has
// nothing to undo. Only the reader calls it, so that unexecuted needs no lock.
func (pc *pipeConn) noteAcquire(c *command.Command, r command.Reply) {
	// Failed says that nothing was executed (see internal/reply).
	if r.Outcome != command.Failed || c.Op != command.Acquire || c.UsesEval() || c.Redirects > 0 || pc.pipeline.node.cfg.Proxied {
		return
	}
	// Without room it is not remembered. Its undo is then repeated, which is safe.
	if len(pc.unexecuted) >= maxParked {
		return
	}
	if pc.unexecuted == nil {
		pc.unexecuted = make(map[string]clock.Instant)
	}
	// The undo follows within the TTL. The entry is kept for twice that, and then dropped by
	// forgetUnexecuted.
	pc.unexecuted[c.Token()] = pc.pipeline.node.cfg.Clock.Now().Add(2 * c.TTL)
}

// forgetUnexecuted drops acquires whose undo does not come here, because it went to another
// shard or the lock was detached. Only the reader calls it.
func (pc *pipeConn) forgetUnexecuted() {
	now := pc.pipeline.node.cfg.Clock.Now()
	maps.DeleteFunc(pc.unexecuted, func(_ string, until clock.Instant) bool { return !now.Before(until) })
}

// takeUnexecuted reports whether the acquire of an answered undo surely executed nothing, and forgets
// that acquire. Only the reader calls it.
func (pc *pipeConn) takeUnexecuted(c *command.Command) bool {
	_, unexecuted := pc.unexecuted[c.Token()]
	// An acquire has one undo, so the entry is not needed again.
	delete(pc.unexecuted, c.Token())
	return unexecuted && c.AcquiredHere
}
