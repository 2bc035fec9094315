package pool

import (
	"runtime"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// batchThreshold is from how many callers of a connection whoever writes lets other goroutines run
// first: what they queue meanwhile goes out in the same system call, which costs more than
// all else on this path. One caller alone has two commands under way at the most, its own and
// one whose answer it did not wait for, and does not pay for company that isn't there.
const batchThreshold = 3

// batchMemory bounds how large a crowd is remembered, which fades by one with each write: who is
// alone again soon after a burst pays for it no longer.
const batchMemory = 4 * batchThreshold

// maxBatch and maxBatchBytes are how much goes out in one write. More gains nothing,
// and what is stuck in a write to a frozen peer can't be given up any more.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
)

// recentlyBusy reports whether there was company lately. What is under way now would not tell:
// the first caller to be answered would write alone, and so would each behind it.
func (pc *pipeConn) recentlyBusy() bool { return pc.recentBatch >= batchThreshold }

// recordBatch books how many came together: in this batch, or as answers since the one before,
// whose callers are about to come. What is unanswered says nothing where the peer is frozen.
func (pc *pipeConn) recordBatch() {
	answered := pc.answered.Load()
	pc.recentBatch = min(batchMemory, max(len(pc.batch), int(answered-pc.answeredAtLastBatch), pc.recentBatch-1))
	if answered != pc.answeredAtLastBatch {
		pc.writesWithoutReply, pc.answeredAtLastBatch = 0, answered
	}
	if len(pc.batch) == 0 {
		return // all was given up: no answer is owed for it
	}
	if pc.writesWithoutReply++; pc.writesWithoutReply == batchThreshold {
		pc.silentSince = pc.pipeline.node.cfg.Clock.Now()
	}
}

// From silence on, the writer holds back what is for a peer that has not answered since, for so
// small a share of that time, and maxThrottle at the most. A frozen peer would cost a system call
// for each few commands, which are all in vain; what is given up meanwhile is never sent. Who
// is far away answers later than that at first, and not once answers flow.
const (
	silentAfter   = 50 * time.Millisecond
	throttleShare = 50
	maxThrottle   = 10 * time.Millisecond
)

// peerSilent reports whether several batches were written in a row without an answer between.
func (pc *pipeConn) peerSilent() bool {
	return pc.writesWithoutReply >= batchThreshold && pc.answeredAtLastBatch == pc.answered.Load()
}

// throttle waits before the next batch where the peer is silent.
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

// callerMayWrite reports whether a caller writes itself. It does not where several were written
// in a row without an answer between: one goroutine that submits many (extensions that fall
// due together) would make each a system call, and to a frozen peer all are in vain. Called
// under lane.mu while nobody writes.
func (pc *pipeConn) callerMayWrite() bool {
	return pc.raw.canTryFlush() && !pc.peerSilent()
}

func (pc *pipeConn) wakeWriter() {
	select {
	case pc.wake <- struct{}{}:
	default: // woken already
	}
}

// write is the writer's goroutine. Whoever wakes it has set writing for it.
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

// Who writes a batch.
const (
	byWriter = false
	byCaller = true // as far as the socket takes it in at once
)

// writeBatch writes what is queued in one system call and reports whether something is
// left. If so the right to write stays with whom the caller wakes.
func (pc *pipeConn) writeBatch(caller bool) (more bool) {
	if pc.raw.hasUnsent() && !pc.checkWrite(pc.raw.flush()) { // before more is taken: what is still queued can be given up
		return false
	}
	if !caller {
		pc.throttle()
	}
	if pc.recentlyBusy() {
		runtime.Gosched() // once: where others compute, each time may take a time slice of theirs
	}
	if pc.isDead() {
		return false // writing stays set: what is queued waits for the next link
	}
	failAll(pc.takeBatch())
	if len(pc.batch) > 0 && !pc.checkWrite(pc.send(caller)) {
		return false // writing stays set: nobody writes on a dead link
	}
	pc.pipeline.node.count.written.Add(int64(len(pc.batch)))
	clear(pc.batch) // each command leads to its Locker, which may be closed while the connection lives
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	pc.writing = pc.pipeline.queue.len() > 0 || pc.raw.hasUnsent()
	return pc.writing
}

// checkWrite counts a write, or ends the link for its error.
func (pc *pipeConn) checkWrite(err error) bool {
	if err != nil {
		pc.fail(err)
		return false
	}
	pc.pipeline.node.count.writes.Add(1)
	return true
}

// takeBatch moves commands from the queue to those that are written. They are
// owed an answer from here on, before the first byte goes out.
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
		if err := pc.rejectReason(c); err != nil {
			dropped = append(dropped, droppedCommand{c, err})
			continue
		}
		want, first := pc.withMarkerLocked(c)
		if first != nil {
			pc.appendToBatch(first, nil) // also for a command that is not sent: a quarantine begins as early as can be
		}
		if !c.Op.Undoes() && stale.expired(c) || !c.MarkSent() { // an undo is never too late: its acquire may be as late
			dropped = append(dropped, droppedCommand{c, dropReason(c)})
			continue
		}
		if c.Asking {
			pc.appendToBatch(askingCommand(), nil) // right before it, and for it alone
		}
		pc.appendToBatch(c, want)
	}
	pc.sent += int64(len(pc.batch))
	pc.recordBatch()
	pc.armWatchdogLocked()
	return dropped
}

// appendToBatch puts a command into the batch. Called under lane.mu.
func (pc *pipeConn) appendToBatch(c *wire.Command, want any) {
	pc.batch, pc.markers = append(pc.batch, c), append(pc.markers, want)
	pc.unanswered.push(c)
}

// askingCommand is a command whose answer nobody waits for.
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

// expiry finds commands past their not-after instant with one reading of the
// clock for a whole batch.
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
