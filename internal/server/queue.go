package server

import (
	"sync"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/signal"
)

// maxBatch and maxBatchBytes bound what one write takes from the queue. More gains nothing, and a command that is stuck
// in a write to a frozen peer can no longer be given up.
const (
	maxBatch      = 512
	maxBatchBytes = 1 << 20
)

// minPrune is the least number of commands between two runs of prune.
const minPrune = 64

// sendQueue has the commands that wait to be written to one server, in their order, and says why commands fail at once
// (docs/dev/rules.md rule 23). It outlives connections: undos wait in it for the next one. Its methods are safe for
// concurrent use, but take, begin and end are for one writer at a time.
type sendQueue struct {
	cfg  *Config       // for the bound, the clock and what is pruned
	wake signal.Signal // wakes the writer

	mu         sync.Mutex         // guards what follows; no command is answered under it
	waiting    []*command.Command // the oldest is first
	untilPrune int                // how many commands may come before prune goes through the queue
	served     bool               // a connection has a writer
	asleep     bool               // … which looks at the queue only once it is woken
	down       error              // why commands fail at once; nil while there is a connection, and while a dial may still succeed
	closed     bool
	passOn     func(*command.Command) // of a server that was retired: takes a command instead
}

func newQueue(cfg *Config) sendQueue {
	return sendQueue{cfg: cfg, wake: signal.New(), untilPrune: minPrune}
}

// push queues a command, and another one right behind it unless that is nil, and wakes the writer. It takes both or none,
// and returns why: see command.Node. unfit is why the server should not get them.
func (q *sendQueue) push(c, behind *command.Command, unfit error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.refusesLocked(c, unfit)
	if err == nil && behind != nil {
		err = q.refusesLocked(behind, unfit)
	}
	if err == nil {
		q.waiting = append(q.waiting, c)
		if behind != nil {
			q.waiting = append(q.waiting, behind)
		}
	}
	if !q.wakeLocked() {
		// The queue may grow while a dial or a write is stuck, so commands that have expired are removed here.
		q.pruneLocked()
	}
	return err
}

// refuses returns why a command would not be queued.
func (q *sendQueue) refuses(c *command.Command, unfit error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refusesLocked(c, unfit)
}

// refusesLocked returns why a command cannot be queued. An undo is always queued unless the node is closed or drained: it
// belongs to an acquire that was written, and ends with the acquire's keys.
func (q *sendQueue) refusesLocked(c *command.Command, unfit error) error {
	switch {
	// Before closed: a queue that was drained is also closed, and its commands go to the successor all the same.
	case q.passOn != nil:
		return ErrRetired
	case q.closed:
		return ErrClosed
	case c.Op.Undoes():
		return nil
	case q.down != nil:
		return q.down
	// After the undos, which the bound does not concern.
	case len(q.waiting) >= q.cfg.Queue:
		return ErrQueueFull
	}
	return unfit
}

// wakeLocked wakes the writer, and reports whether it did. It does not if there is nothing to write, or no writer, or if
// the writer will look at the queue anyway.
func (q *sendQueue) wakeLocked() bool {
	if !q.asleep || len(q.waiting) == 0 {
		return false
	}
	q.asleep = false
	q.wake.Set()
	return true
}

// again queues a command that was queued before, behind the others, however long the queue is. Where that is impossible
// it passes the command on, or answers it, so it must not be called under a mutex.
func (q *sendQueue) again(c *command.Command) {
	q.mu.Lock()
	passOn, ended := q.passOn, q.closed || q.down != nil && !c.Op.Undoes()
	if passOn == nil && !ended {
		q.waiting = append(q.waiting, c)
		q.wakeLocked()
	}
	q.mu.Unlock()
	switch {
	case passOn != nil:
		passOn(c)
	case ended:
		c.Fail(ErrDisconnected)
	}
}

// take removes what one write sends, and appends it to taken. more reports that commands are left. Otherwise the writer
// has to wait until it is woken. All are taken under one lock, so their order is that of the queue.
func (q *sendQueue) take(taken []*command.Command) (all []*command.Command, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for size := 0; n < maxBatch && n < len(q.waiting); n++ {
		if size += q.waiting[n].Size(); size > maxBatchBytes && n > 0 {
			break
		}
	}
	taken = append(taken, q.waiting[:n]...)
	clear(q.waiting[:n]) // it must not keep the commands, and with them locks, alive
	if more = n < len(q.waiting); more {
		q.waiting = q.waiting[n:]
	} else {
		q.waiting = q.waiting[:0] // its memory is used again, which is the usual case
	}
	q.asleep = !more
	return taken, more
}

// begin is told that a connection has a writer, which looks at the queue. The failure of the dials before ends, and the
// rate of pruning begins again.
func (q *sendQueue) begin() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served, q.asleep, q.down, q.untilPrune = true, false, nil, minPrune
}

// end is told that the writer has ended. Queued commands wait for the next one.
func (q *sendQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.served, q.asleep = false, false
}

// fail makes new commands fail at once until there is a connection again, and removes those that wait. Undos are kept
// while they may be needed. Its caller answers the removed ones.
func (q *sendQueue) fail(err error) (failed []droppedCommand) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// down is set under the lock under which the queue is emptied: a command is either in the queue by now, or refused.
	if q.closed {
		err = ErrClosed
	}
	q.down = err
	now := q.now()
	return q.removeLocked(func(c *command.Command) error {
		if c.Op.Undoes() && !q.closed && !c.Expired(now) {
			return nil
		}
		return err
	})
}

// close refuses commands from now on. What is queued waits for fail.
func (q *sendQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// isClosed reports whether close was called.
func (q *sendQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

// drain removes all commands. Those that come later are never queued: passOn gets those that are queued again.
func (q *sendQueue) drain(passOn func(*command.Command)) (left []*command.Command) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passOn = passOn
	left, q.waiting = q.waiting, nil
	return left
}

// removeIf removes and returns the commands for which a condition is true. The others keep their order. The condition
// is asked under the mutex.
func (q *sendQueue) removeIf(condition func(c *command.Command) bool) (removed []*command.Command) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	for _, d := range q.removeLocked(func(c *command.Command) error {
		if condition(c) {
			return ErrRetired
		}
		return nil
	}) {
		removed = append(removed, d.command)
	}
	return removed
}

// len returns the number of commands.
func (q *sendQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// now returns the time by which commands expire.
func (q *sendQueue) now() clock.Instant { return q.cfg.Member().Clock.Now() }

// pruneLocked removes commands that were given up or have expired from a queue that is not being emptied. While a dial or
// a write hangs, which may take seconds, most queued commands were given up long ago. It goes through the queue whenever
// as many commands have come as the run before left, also if the queue had no room for them. So each command costs a
// constant share of a run. It answers none: its caller may hold a mutex, and the goroutines of the connection may be
// blocked by the dial or the write. So another one answers.
func (q *sendQueue) pruneLocked() {
	if q.served && len(q.waiting) <= maxBatch {
		q.untilPrune = min(q.untilPrune, maxBatch) // the queue may be shorter now than it was
		return                                     // the writer is emptying it
	}
	if q.untilPrune--; q.untilPrune > 0 {
		return
	}
	now := q.now()
	for _, d := range q.removeLocked(func(c *command.Command) error {
		// An undo is kept however late it is: its acquire may be executed late, too.
		if c.Op.Undoes() || !c.Cancelled() && !c.Expired(now) {
			return nil
		}
		return dropReason(c, now)
	}) {
		q.cfg.pruned.Add(d)
	}
	q.untilPrune = max(minPrune, len(q.waiting))
}

// removeLocked removes the commands for which why returns an error. The others keep their order.
func (q *sendQueue) removeLocked(why func(c *command.Command) error) (removed []droppedCommand) {
	kept := q.waiting[:0]
	for _, c := range q.waiting {
		if err := why(c); err != nil {
			removed = append(removed, droppedCommand{c, err})
		} else {
			kept = append(kept, c)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
	return removed
}
