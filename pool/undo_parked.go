package pool

import (
	"fmt"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/undo"
)

// parked has the undos that the server answered by an error, and the timer of their probes. pipeline.mu guards it. Each of them has
// been counted by admitsUndo.
type parked struct {
	undo.Parked
	timer timer.Alarm // of probe: set while undos wait
}

// endRetriesLocked forgets the acquires that may still be executed, and returns the parked undos, which
// will not be sent. It is for a pipeline that is closed or drained.
func (pl *pipeline) endRetriesLocked() (left []*command.Command) {
	pl.unacked.Clear()
	pl.unacked.timer.Stop()
	pl.parked.timer.Stop() // a probe that is already firing finds no undo
	return pl.unparkedLocked(pl.parked.Take(pl.parked.Len()))
}

// parkLocked parks an answered undo and makes sure that a probe comes. The caller has counted it with
// admitsUndo.
func (pl *pipeline) parkLocked(c *command.Command, perhaps bool) {
	if pl.parked.Add(c, perhaps) {
		pl.probeLaterLocked()
	}
}

// probeLaterLocked sets the timer of the next probe if undos wait.
func (pl *pipeline) probeLaterLocked() {
	if p := &pl.parked; p.Len() > 0 {
		p.timer.Set(pl.node.cfg.Clock, p.Pause(), pl.probe)
	}
}

// probeSoonLocked brings the next probe forward on a new connection, which may reach a server
// that executes undos again.
func (pl *pipeline) probeSoonLocked() {
	pl.parked.Soon()
	pl.probeLaterLocked()
}

// probe is the timer's function. It drops the undos that have expired, and sends the oldest of
// the others.
func (pl *pipeline) probe() {
	now := pl.node.membership().Clock.Now() // once for all: there may be 10,000
	pl.mu.Lock()
	late := pl.unparkedLocked(pl.parked.Probed(now))
	if pl.conn != nil {
		pl.sendParkedLocked(1)
	}
	pl.probeLaterLocked()
	pl.mu.Unlock()
	for _, c := range late { // without mu, because this calls their owners
		c.Fail(command.ErrExpired)
	}
}

// followParkedLocked sends the followers of an undo that the server executed.
func (pl *pipeline) followParkedLocked() {
	pl.parked.Soon()
	pl.sendParkedLocked(undo.Followers)
}

// sendParkedLocked queues the oldest undos, at most so many. It queues none while the queue is long: the next
// probe will have followers, too.
func (pl *pipeline) sendParkedLocked(most int) {
	for _, c := range pl.unparkedLocked(pl.parked.Take(min(most, maxBatch-pl.queue.len()))) {
		pl.queue.push(c)
	}
	pl.wakeLocked()
}

// unparkedLocked returns undos that are parked no more.
func (pl *pipeline) unparkedLocked(undos []*command.Command) []*command.Command {
	for range undos {
		pl.node.releaseUndo()
	}
	return undos
}

// admitsUndo counts an undo that will be sent once more, and reports false if there are too many.
// The counters are atomic, because all pipelines of a node, and all shards of a Cluster, share
// them.
func (n *Node) admitsUndo() bool {
	n = n.whole
	// Counted first and taken back if it was too many, so that concurrent calls never exceed the
	// bound.
	if n.count.parked.Add(1) <= undo.MaxParked {
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
	"pool: %d undos are waiting: further undos are dropped, and their keys remain until their TTL", undo.MaxParked)

// releaseUndo removes an undo from the count. When none is left, the next dropped undo is logged
// again.
func (n *Node) releaseUndo() {
	n = n.whole
	if n.count.parked.Add(-1) == 0 {
		n.count.dropping.Store(false)
	}
}

// noteAcquire notes the last answer to an acquire. Only the reader calls it, so that nothing needs no mutex.
func (pc *pipeConn) noteAcquire(c *command.Command, r command.Reply) {
	if n := pc.pipeline.node; r.Outcome == command.Failed && !n.cfg.Proxied { // a proxy may have sent it to another server, too
		pc.nothing.Failed(c, n.cfg.Clock.Now())
	}
}
