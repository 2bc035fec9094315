package server

import (
	"runtime"
	"sync/atomic"

	"github.com/quorumlock/go-redlock/internal/command"
)

// writer writes what is queued to one connection. Its goroutine alone uses it, but for what merger says.
type writer struct {
	link   *link
	merger *merger

	taken  []*command.Command // from the queue
	batch  []*command.Command // what one write sends, in its order
	text   bool               // the batch's merged calls send the script's text
	loaded command.ScriptSet  // scripts that were loaded on this connection
	forgot atomic.Bool        // the reader has seen since that the server lacks one
	args   []any              // the arguments of one call

	recentBatch    int   // how many commands came together recently: fades by one with each write
	answeredBefore int64 // Counters.Answered, when the last batch was taken
}

func newWriter(l *link) *writer {
	cfg := l.server.cfg
	return &writer{link: l, answeredBefore: l.server.Answered.Load(), merger: newMerger(!cfg.Proxied && !cfg.OneSlot, &l.server.Counters)}
}

// batchThreshold is the number of commands in a recent batch from which on the writer first lets
// other goroutines run. What these queue meanwhile goes out in the same system call,
// which costs more than all else on this path. A single caller has at most two commands in
// flight: its own, and one whose answer it did not wait for. So it does not yield.
const batchThreshold = 3

// batchMemory bounds the remembered size of a batch, which falls by one with each write. A caller
// that is alone again soon after a burst no longer yields.
const batchMemory = 4 * batchThreshold

// recentlyBusy reports whether several commands came together recently. The commands in flight
// now would not tell: the first caller that is answered would write alone, and so would each one
// behind it.
func (w *writer) recentlyBusy() bool { return w.recentBatch >= batchThreshold }

// recordBatch records how many commands came together: those in this batch, or the answers since
// the batch before it, because their callers are about to submit more. Unanswered commands do not
// count, because a frozen peer leaves many.
func (w *writer) recordBatch() {
	answered := w.link.server.Answered.Load()
	w.recentBatch = min(batchMemory, max(len(w.batch), int(answered-w.answeredBefore), w.recentBatch-1))
	w.answeredBefore = answered
}

// run writes until the queue is empty, and then sleeps until it is woken, until the connection ends. A signal that comes
// meanwhile is not lost.
func (w *writer) run() {
	for {
		for w.write() {
		}
		select {
		case <-w.link.server.queue.wake:
		case <-w.link.conn.Dead():
			return
		}
	}
}

// write writes queued commands in one system call, and reports whether something is left.
func (w *writer) write() (more bool) {
	conn, s := w.link.conn, w.link.server
	conn.Pace()
	if w.recentlyBusy() {
		runtime.Gosched() // only once: if other goroutines compute, each yield may cost one of their time slices
	}
	// After the pauses above: commands that are taken from here on count as sent, and on a dead
	// connection they would be answered as Unknown.
	if conn.IsDead() {
		return false // what is queued waits for the next connection
	}
	more = w.take()
	if len(w.batch) > 0 {
		// Counted before the write, because the replies may come before it returns.
		s.Writes.Add(1)
		s.Written.Add(int64(len(w.batch)))
		w.link.flight.push(w.batch)
		if err := w.send(); err != nil {
			conn.End(err)
			return false
		}
		clear(w.batch) // it must not keep the commands, and with them locks, alive
	}
	return more
}

// take moves commands from the queue to the batch, and fails those that are not to be sent. It reports whether the queue holds
// more.
func (w *writer) take() (more bool) {
	s := w.link.server
	now := s.queue.now()
	w.batch, w.text = w.batch[:0], false
	if w.forgot.Load() && w.forgot.Swap(false) {
		w.loaded = 0
	}
	if s.standing.wanted.Load() {
		for _, c := range s.standing.first() {
			if err := s.standing.admits(c); err != nil {
				c.Fail(err)
			} else {
				w.add(c)
			}
		}
	}
	w.taken, more = s.queue.take(w.taken[:0])
	for _, c := range w.taken {
		// A connection can become unfit while a command is queued, and another one than the one that admitted the command, so this is
		// asked once more.
		if err := s.standing.admits(c); err != nil {
			c.Fail(err)
			continue
		}
		if c.Guarded {
			if verify := s.standing.precede(c); verify != nil {
				w.add(verify) // also if c is not sent: a quarantine then begins as early as possible
			}
		}
		// MarkSent comes last, because it decides between sending and giving up: of a command
		// that is marked an answer is due, and one that was given up before is never sent.
		if !c.Op.Undoes() && c.Expired(now) || !c.MarkSent() { // an undo is never too late: its acquire may be as late
			c.Fail(dropReason(c, now))
			continue
		}
		c.Merged = 0 // it may have been sent before, as part of a merged call
		w.merger.before(c, w)
		if !w.merger.setAside(c) {
			w.add(c)
		}
	}
	clear(w.taken)
	w.merger.rest(w)
	w.recordBatch()
	return more
}

// add puts a command into the batch. Before the first use of a script on this connection it puts a command there that loads the
// script. So the server never lacks it, unless it is told to forget it: NOSCRIPT would have the command sent again, behind later
// ones.
func (w *writer) add(c *command.Command) {
	if load := w.loaded.Add(c); load != nil {
		w.batch = append(w.batch, load)
	}
	if c.Asking() {
		w.batch = append(w.batch, command.NewAsking()) // right before the command, which alone it concerns
	}
	w.batch = append(w.batch, c)
}

// addMerged puts commands into the batch that share a call.
func (w *writer) addMerged(all []*command.Command, text bool) {
	all[0].Merged = uint8(len(all)) //nolint:gosec // at most MaxMerged
	w.text = w.text || text
	w.add(all[0])
	w.batch = append(w.batch, all[1:]...)
}

// send writes the batch to the connection. The buffer of the connection collects the commands, so
// that the flush is one system call.
func (w *writer) send() error {
	s := w.link.server
	expected := s.standing.expected()
	for i := 0; i < len(w.batch); i++ {
		c := w.batch[i]
		var name string
		if c.Merged > 0 {
			waiters := s.cfg.Member().WaitersChannel
			name, w.args = command.MergedCall(w.args[:0], w.text, w.batch[i:i+int(c.Merged)], waiters, expected)
			i += int(c.Merged) - 1
		} else if name, w.args = c.AppendCall(w.args[:0], c.UsesEval()); c.Guarded {
			w.args = append(w.args, expected)
		}
		if err := w.link.conn.Send(name, w.args); err != nil {
			return err
		}
	}
	return w.link.conn.Flush()
}
