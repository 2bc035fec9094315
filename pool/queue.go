package pool

import "github.com/quorumlock/go-redlock/pool/wire"

// droppedCommand is a command that is not written, and why.
type droppedCommand struct {
	command *wire.Command
	why     error
}

// failAll ends commands that left the queue unsent. It must not be called under pipeline.mu,
// because it answers them.
func failAll(list []droppedCommand) {
	for _, d := range list {
		d.command.Fail(d.why)
	}
}

func dropReason(c *wire.Command) error {
	if c.Expired() {
		return wire.ErrExpired
	}
	return wire.ErrGivenUp
}

func refuse(c *wire.Command, why error) {
	if cl, ok := why.(drainedError); ok { //nolint:errorlint // never wrapped
		cl.handBack(c)
	} else if why != nil {
		c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true, Err: why})
	}
}

// minPrune is the least number of commands between two runs of prune.
const minPrune = 64

// pruneLocked removes cancelled and expired commands from a queue that no goroutine empties:
// during a dial or a write that hangs for seconds, most queued commands are cancelled long
// before. It runs whenever as many commands have come as the run before left, including those
// that found the queue full. It is called for each command that is not written at once.
func (pl *pipeline) pruneLocked() (dropped []droppedCommand) {
	if pl.conn != nil && pl.queue.len() <= maxBatch {
		pl.untilPrune = min(pl.untilPrune, maxBatch) // the queue is shorter than it was
		return nil                                   // the writer empties it
	}
	if pl.untilPrune--; pl.untilPrune > 0 {
		return nil
	}
	var stale expiry
	for range pl.queue.len() {
		c := pl.queue.pop()
		if !c.Op.Undoes() && (c.Cancelled() || stale.expired(c)) {
			dropped = append(dropped, droppedCommand{c, dropReason(c)})
			continue
		}
		pl.queue.push(c)
	}
	pl.untilPrune = max(minPrune, pl.queue.len())
	return dropped
}

// failUnsent makes commands fail at once until there is a connection, and ends those that wait.
// Undos are kept while they are needed. It reports whether the pipeline was up until now.
func (pl *pipeline) failUnsent(err error) (news bool) {
	pl.mu.Lock()
	news = pl.downErr == nil
	if pl.closed {
		err = ErrClosed
	}
	pl.downErr = err
	var dropped []droppedCommand
	for _, c := range pl.queue.popAll(nil) {
		expired := c.Expired()
		switch {
		case !c.Op.Undoes() || pl.closed || expired && !pl.mayStillExecuteLocked(c.Token):
			dropped = append(dropped, droppedCommand{c, err})
		case expired:
			dropped = append(dropped, droppedCommand{c, err})
			pl.queue.push(detachedUndo(c))
		default:
			pl.queue.push(c)
		}
	}
	pl.mu.Unlock()
	failAll(dropped)
	return news
}
