package pool

import (
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
)

// requeue queues a command once more, as its first submission did. It must not be called under
// mu.
func (pl *pipeline) requeue(c *command.Command) {
	pl.mu.Lock()
	if handBack := pl.handBack; handBack != nil {
		// Handing back submits the command to another pipeline, and so happens outside mu.
		pl.mu.Unlock()
		handBack(c)
		return
	}
	if pl.closed || pl.conn == nil && pl.downErr != nil && !c.Op.Undoes() {
		pl.mu.Unlock()
		c.Fail(ErrDisconnected)
		return
	}
	pl.queue.push(c)
	pl.wakeLocked()
	pl.mu.Unlock()
}

// retry parks an undo that the server answered by an error (BUSY, NOREPLICAS, …): the server may still
// hold what was to be undone. It reports whether it did. The owner then gets another answer, until the
// command's not-after instant. An undo is not parked if the user lacks the permission, which no
// repetition cures, or if it has nothing to undo, or if there is no room.
func (pl *pipeline) retry(c *command.Command, r command.Reply, nothing bool) (retrying bool) {
	failed := (r.Outcome == command.Failed || r.Outcome == command.Unknown) && !reply.Denied(r.Err)
	// The usual case needs no lock. The reader, which calls retry, also adds to unacked.
	if !failed && c.Retries == 0 && !pl.unacked.Some() {
		return false
	}
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.sweepLaterLocked(c)
	if retrying = failed && !nothing && !pl.closed && !pl.node.expired(c) && pl.node.admitsUndo(); retrying {
		pl.parkLocked(c, r.Outcome == command.Unknown || c.WasResent())
	}
	if !failed && c.Retries > 0 { // the server probably executes the others as well
		pl.followParkedLocked()
	}
	return retrying
}
