package pool

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// droppedCommand is a command that is not written, and the reason.
type droppedCommand struct {
	command *command.Command
	why     error
}

// failAll fails commands that left the queue unsent. It calls their owners, and so must not be
// called under mu.
func failAll(list []droppedCommand) {
	for _, d := range list {
		d.fail()
	}
}

func (d droppedCommand) fail() { d.command.Fail(d.why) }

// dropReason returns why a command that left the queue is not written: it expired, or its owner
// gave it up.
func dropReason(c *command.Command, now clock.Instant) error {
	if c.Expired(now) {
		return command.ErrExpired
	}
	return command.ErrGivenUp
}

// minPrune is the least number of commands between two runs of prune.
const minPrune = 64

// pruneLocked removes commands that were given up or have expired from a queue that is not being
// emptied. While a dial or a write hangs, which may take seconds, most queued commands were given
// up long ago. It goes through the queue whenever as many commands have come as the run before
// left, also if the queue had no room for them. So each command costs a constant share of a run.
// It is called for each command that is not written at once, and answers none: its caller may hold a
// mutex, and the pipeline's own goroutines may be blocked by the dial or the write. So another
// one answers.
func (pl *pipeline) pruneLocked() {
	if pl.conn != nil && pl.queue.len() <= maxBatch {
		pl.untilPrune = min(pl.untilPrune, maxBatch) // the queue may be shorter now than it was
		return                                       // the writer is emptying it
	}
	if pl.untilPrune--; pl.untilPrune > 0 {
		return
	}
	now := pl.node.membership().Clock.Now()
	// One round through the ring: each command is taken from the head and, if it is kept, put
	// behind the others. So the order of the kept commands does not change.
	for range pl.queue.len() {
		c := pl.queue.pop()
		// An undo is kept however late it is: its acquire may be executed late, too.
		if !c.Op.Undoes() && (c.Cancelled() || c.Expired(now)) {
			pl.node.pruned.Add(droppedCommand{c, dropReason(c, now)})
			continue
		}
		pl.queue.push(c)
	}
	pl.untilPrune = max(minPrune, pl.queue.len())
}

// failUnsent makes new commands fail at once until there is a connection again, and fails those
// that wait. Undos are kept while they may be needed.
func (pl *pipeline) failUnsent(err error) {
	pl.mu.Lock()
	// downErr is set under the lock under which the queue is emptied: a command is either in the
	// queue by now, or rejected with downErr.
	if pl.closed {
		err = ErrClosed
	}
	pl.downErr = err
	var dropped []droppedCommand
	for _, c := range pl.queue.popAll(nil) {
		if c.Op.Undoes() && !pl.closed {
			if !pl.node.expired(c) {
				pl.queue.push(c)
				continue
			}
			pl.sweepLaterLocked(c) // its owner gets the answer in time
		}
		dropped = append(dropped, droppedCommand{c, err})
	}
	pl.mu.Unlock()
	// Outside mu, because this calls the owners of the commands.
	failAll(dropped)
}

// failsAtOnce reports whether new commands fail at once, because there is no connection.
func (pl *pipeline) failsAtOnce() bool {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.downErr != nil
}
