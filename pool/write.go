package pool

import (
	"runtime"

	"github.com/quorumlock/go-redlock/internal/command"
)

// outgoing is the state of the writer, which alone uses it.
type outgoing struct {
	batch      []*command.Command
	args       []any // the arguments of one call
	expected   any   // the restart guard's marker
	evalMerged bool  // the batch's merged calls send the script's text

	recentBatch    int   // how many commands came together recently: fades by one with each write
	answeredBefore int64 // answered, when the last batch was taken
}

// batchThreshold is the number of commands in a recent batch from which on the writer first lets
// other goroutines run. What these queue meanwhile goes out in the same system call,
// which costs more than all else on this path. A single caller has at most two commands in
// flight: its own, and one whose answer it did not wait for. So it does not yield.
const batchThreshold = 3

// batchMemory bounds the remembered size of a batch, which falls by one with each write. A caller
// that is alone again soon after a burst no longer yields.
const batchMemory = 4 * batchThreshold

// maxBatch and maxBatchBytes bound what one write takes from the queue. More gains nothing, and a
// command that is stuck in a write to a frozen peer can no longer be given up.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
)

// recentlyBusy reports whether several commands came together recently. The commands in flight
// now would not tell: the first caller that is answered would write alone, and so would each one
// behind it.
func (pc *pipeConn) recentlyBusy() bool { return pc.recentBatch >= batchThreshold }

// recordBatch records how many commands came together: those in this batch, or the answers since
// the batch before it, because their callers are about to submit more. Unanswered commands do not
// count, because a frozen peer leaves many.
func (pc *pipeConn) recordBatch() {
	answered := pc.answered.Load()
	pc.recentBatch = min(batchMemory, max(len(pc.batch), int(answered-pc.answeredBefore), pc.recentBatch-1))
	pc.answeredBefore = answered
}

// write is the writer's goroutine. It sleeps until it is woken (wakeLocked), and then writes until
// it has emptied the queue. A signal that comes before the writer has started, or while it writes, is
// not lost.
func (pc *pipeConn) write() {
	for {
		select {
		case <-pc.wake:
			for pc.writeBatch() {
			}
		case <-pc.raw.Dead():
			return
		}
	}
}

// writeBatch writes queued commands in one system call and reports whether something is left.
// Only the writer calls it.
func (pc *pipeConn) writeBatch() (more bool) {
	pc.raw.Pace()
	if pc.recentlyBusy() {
		runtime.Gosched() // only once: if other goroutines compute, each yield may cost one of their time slices
	}
	// After the pauses above: commands that are taken from here on count as sent, and on a dead
	// connection they would be answered as Unknown.
	if pc.raw.IsDead() {
		return false // what is queued waits for the next connection
	}
	dropped, more := pc.takeBatch()
	failAll(dropped) // calls the owners, without mu
	if len(pc.batch) > 0 {
		// Counted before the write, because the replies may come before it returns.
		pc.pipeline.node.count.writes.Add(1)
		pc.pipeline.node.count.written.Add(int64(len(pc.batch)))
		if err := pc.send(); err != nil {
			pc.raw.End(err)
			return false
		}
		clear(pc.batch) // as nextAnswered does
	}
	return more
}

// takeBatch moves commands from the queue to the batch and to unanswered. An answer is due for
// them from here on, before the first byte is written: the reader may receive it before the write
// returns. It also returns the commands that are not to be sent, and whether the queue holds more.
func (pc *pipeConn) takeBatch() (dropped []droppedCommand, more bool) {
	pl := pc.pipeline
	// The whole batch is taken under one lock, so that the order of the queue, of the bytes and
	// of unanswered is the same: the reader matches replies to commands by their order alone.
	pl.mu.Lock()
	defer pl.mu.Unlock()
	now := pl.node.membership().Clock.Now()
	pc.batch, pc.evalMerged = pc.batch[:0], false
	size, taken := 0, 0
	if pl.marker.Wanted() {
		first := pc.verifyLocked()
		if err := pc.admitLocked(first); err != nil {
			dropped = append(dropped, droppedCommand{first, err})
		} else {
			pc.appendToBatchLocked(first)
		}
	}
	for taken < maxBatch && pl.queue.len() > 0 {
		if size += pl.queue.peek().Size(); size > maxBatchBytes && taken > 0 {
			break
		}
		c := pl.queue.pop()
		// A connection can become unfit while a command is queued, so this is checked once more.
		if err := pc.admitLocked(c); err != nil {
			dropped = append(dropped, droppedCommand{c, err})
			continue
		}
		if pc.needsVerifyLocked(c) {
			pc.appendToBatchLocked(pc.verifyLocked()) // also if c is not sent: a quarantine then begins as early as possible
		}
		// MarkSent comes last, because it decides between sending and giving up: of a command
		// that is marked an answer is due, and one that was given up before is never sent.
		if !c.Op.Undoes() && c.Expired(now) || !c.MarkSent() { // an undo is never too late: its acquire may be as late
			dropped = append(dropped, droppedCommand{c, dropReason(c, now)})
			continue
		}
		taken++
		c.Merged = 0 // it may have been sent before, as part of a merged call
		pc.appendSameKeysLocked(c)
		if !pc.setAsideLocked(c) {
			pc.appendToBatchLocked(c)
		}
	}
	pc.appendAllMergedLocked()
	pc.recordBatch()
	// Under the same lock as the queue: unless the writer continues, the next command wakes it.
	pc.woken = pl.queue.len() > 0
	return dropped, pc.woken
}

// appendToBatchLocked puts a command into the batch, and among those that await an answer. Before the
// first use of a script on this connection it puts a command there that loads the script. So the
// server never lacks it, unless it is told to forget it: NOSCRIPT would have the command sent again,
// behind later ones.
func (pc *pipeConn) appendToBatchLocked(c *command.Command) {
	if load := pc.loaded.Add(c); load != nil {
		pc.pushLocked(load)
	}
	if c.Asking() {
		pc.pushLocked(command.NewAsking()) // right before the command, which alone it concerns
	}
	pc.pushLocked(c)
}

func (pc *pipeConn) pushLocked(c *command.Command) {
	pc.batch = append(pc.batch, c)
	pc.unanswered.push(c)
}

// send writes the batch to the connection. The buffer of the connection collects the commands, so
// that the flush is one system call.
func (pc *pipeConn) send() error {
	for i := 0; i < len(pc.batch); i++ {
		c := pc.batch[i]
		var name string
		if c.Merged > 0 {
			waiters := pc.pipeline.node.membership().WaitersChannel
			name, pc.args = command.MergedCall(pc.args[:0], pc.evalMerged, pc.batch[i:i+int(c.Merged)], waiters, pc.expected)
			i += int(c.Merged) - 1
		} else if name, pc.args = c.AppendCall(pc.args[:0], c.UsesEval()); c.Guarded {
			pc.args = append(pc.args, pc.expected)
		}
		if err := pc.raw.Send(name, pc.args); err != nil {
			return err
		}
	}
	return pc.raw.Flush()
}
