package pool

import (
	"runtime"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// batchThreshold is the number of recent commands from which a writer yields to other goroutines
// before it writes. What they queue meanwhile goes out in the same system call, which costs more
// than everything else on this path. A single caller has at most two commands in flight, its own
// and one whose answer it did not wait for. It stays below the threshold and does not yield in
// vain.
const batchThreshold = 3

// batchMemory bounds how large a batch is remembered. The memory fades by one with each write, so
// a caller that is alone again after a burst soon stops yielding.
const batchMemory = 4 * batchThreshold

// maxBatch and maxBatchBytes bound one write. More gains nothing, and commands in a write to a
// frozen peer can no longer be cancelled.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
)

// recentlyBusy reports whether there were several callers recently. The commands in flight would
// not tell: the first caller to be answered would write alone, and so would each one after it.
func (pc *pipeConn) recentlyBusy() bool { return pc.recentBatch >= batchThreshold }

// recordBatchLocked records how many commands came together: in this batch, or as replies since
// the one before, whose callers are about to submit again. The number of unanswered commands
// would be wrong for a frozen peer.
func (pc *pipeConn) recordBatchLocked() {
	answered := pc.answered.Load()
	pc.recentBatch = min(batchMemory, max(len(pc.batch), int(answered-pc.answeredAtLastBatch), pc.recentBatch-1))
	if answered != pc.answeredAtLastBatch {
		pc.writesWithoutReply, pc.answeredAtLastBatch = 0, answered
	}
	if len(pc.batch) == 0 {
		return // all were cancelled: no reply is due for this batch
	}
	if pc.writesWithoutReply++; pc.writesWithoutReply == batchThreshold {
		pc.silentSince = pc.pipeline.node.cfg.Clock.Now()
	}
}

// If the peer has not answered for silentAfter, the writer pauses before each batch: for a part
// (1/throttleShare) of the silence, at most maxThrottle. Without the pause a frozen peer would
// cost a system call for each few commands, all in vain. Commands that are cancelled during the
// pause are never sent. A distant peer exceeds silentAfter only before its first reply.
const (
	silentAfter   = 50 * time.Millisecond
	throttleShare = 50
	maxThrottle   = 10 * time.Millisecond
)

// peerSilent reports whether several batches were written in a row without a reply in between.
func (pc *pipeConn) peerSilent() bool {
	return pc.writesWithoutReply >= batchThreshold && pc.answeredAtLastBatch == pc.answered.Load()
}

// throttle waits before the next batch if the peer is silent.
func (pc *pipeConn) throttle() {
	if !pc.peerSilent() {
		return
	}
	silent := pc.pipeline.node.cfg.Clock.Now().Sub(pc.silentSince)
	if silent < silentAfter {
		return
	}
	over, stop := clock.After(pc.pipeline.node.cfg.Clock, min(silent/throttleShare, maxThrottle))
	defer stop()
	select {
	case <-over:
	case <-pc.dead:
	}
}

// callerMayWriteLocked reports whether a caller writes itself. It does not if several batches
// were written in a row without a reply in between. One goroutine that submits many commands
// (extensions that are due together) would otherwise make a system call for each, and with a
// frozen peer all of them are in vain. It is called while no goroutine has the right to write.
func (pc *pipeConn) callerMayWriteLocked() bool {
	return pc.raw.canTryFlush() && !pc.peerSilent()
}

func (pc *pipeConn) wakeWriter() {
	select {
	case pc.wake <- struct{}{}:
	default: // already woken
	}
}

// write is the goroutine of the writer. The goroutine that wakes it has set writing, and hands
// the right to write to it.
func (pc *pipeConn) write() {
	for {
		select {
		case <-pc.wake:
			for pc.writeBatch(byWriter) {
			}
		case <-pc.dead:
			return
		}
	}
}

// byWriter and byCaller name the goroutine that writes a batch.
const (
	byWriter = false
	byCaller = true // writes only what the socket accepts at once
)

// writeBatch writes the queue in one system call and reports whether something is left. The
// caller has the right to write. If something is left the right passes to the goroutine that the
// caller wakes. Otherwise writing is cleared under the mutex together with the look at the queue,
// so a command that is queued later finds it cleared and is written by its own submit.
func (pc *pipeConn) writeBatch(caller bool) (more bool) {
	if pc.raw.hasUnsent() && !pc.checkWrite(pc.raw.flush()) { // before more is taken: commands in the queue can still be cancelled
		return false
	}
	if !caller {
		pc.throttle()
	}
	if pc.recentlyBusy() {
		runtime.Gosched() // once: beside busy goroutines each yield may cost one of their time slices
	}
	if pc.isDead() {
		return false // writing stays set: the queue waits for the next connection
	}
	failAll(pc.takeBatch())
	if len(pc.batch) > 0 && !pc.checkWrite(pc.send(caller)) {
		return false // writing stays set: no goroutine writes on an ended connection
	}
	pc.pipeline.node.count.written.Add(int64(len(pc.batch)))
	clear(pc.batch) // commands refer to their Lockers, which may be closed while the connection lives
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	pc.writing = pc.pipeline.queue.len() > 0 || pc.raw.hasUnsent()
	return pc.writing
}

// checkWrite counts a write, or ends the connection because of its error.
func (pc *pipeConn) checkWrite(err error) bool {
	if err != nil {
		pc.fail(err)
		return false
	}
	pc.pipeline.node.count.writes.Add(1)
	return true
}

// takeBatch moves commands from the queue to the batch. A reply is due for them from here on,
// before the first byte is written: the reader may see a reply before the write returns.
func (pc *pipeConn) takeBatch() (dropped []droppedCommand) {
	l := pc.pipeline
	var stale expiry
	l.mu.Lock()
	defer l.mu.Unlock()
	pc.batch, pc.markers = pc.batch[:0], pc.markers[:0]
	size := 0
	for len(pc.batch) < maxBatch && l.queue.len() > 0 {
		if size += l.queue.peek().Size(); size > maxBatchBytes && len(pc.batch) > 0 {
			break
		}
		c := l.queue.pop()
		if pc.fromOldConn(c) {
			dropped = append(dropped, droppedCommand{c, ErrDisconnected})
			continue
		}
		if err := pc.rejectReasonLocked(c); err != nil {
			dropped = append(dropped, droppedCommand{c, err})
			continue
		}
		want, first := pc.withMarkerLocked(c)
		if first != nil {
			pc.appendToBatchLocked(first, nil) // even for a command that is not sent: a quarantine begins as early as possible
		}
		if !c.Op.Undoes() && stale.expired(c) || !c.MarkSent() { // an undo is never too late, because its acquire may be as late
			dropped = append(dropped, droppedCommand{c, dropReason(c)})
			continue
		}
		if c.Asking {
			pc.appendToBatchLocked(askingCommand(), nil) // right before the command, and for it alone
		}
		pc.appendToBatchLocked(c, want)
	}
	pc.sent += int64(len(pc.batch))
	pc.recordBatchLocked()
	pc.armWatchdogLocked()
	return dropped
}

// appendToBatchLocked adds a command to the batch, and to those that wait for a reply.
func (pc *pipeConn) appendToBatchLocked(c *wire.Command, want any) {
	pc.batch, pc.markers = append(pc.batch, c), append(pc.markers, want)
	pc.unanswered.push(c)
}

// askingCommand returns an ASKING, whose reply is ignored.
func askingCommand() *wire.Command {
	r := &wire.Request{}
	wire.NewAsking(r)
	c := &wire.Command{Request: r}
	c.MarkSent()
	return c
}

func (pc *pipeConn) send(caller bool) error {
	for i, c := range pc.batch {
		name, args := c.Call(c.UsesEval())
		if pc.markers[i] != nil {
			args = append(append(pc.args[:0], args...), pc.markers[i])
			pc.args = args
		}
		if err := pc.raw.redis.Send(name, args...); err != nil {
			return err
		}
	}
	if caller {
		return pc.raw.tryFlush()
	}
	return pc.raw.flush()
}

// expiry finds commands whose NotAfter has passed, with one reading of the clock for a whole
// batch.
type expiry struct {
	clock clock.Clock
	now   clock.Instant
}

func (s *expiry) expired(c *wire.Command) bool {
	if c.Clock == nil {
		return false
	}
	if s.clock != c.Clock {
		s.clock, s.now = c.Clock, c.Clock.Now()
	}
	return !s.now.Before(c.NotAfter)
}
