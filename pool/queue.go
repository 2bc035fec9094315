package pool

import "github.com/quorumlock/go-redlock/pool/wire"

// droppedCommand is a command that is not written, and why.
type droppedCommand struct {
	command *wire.Command
	why     error
}

// failAll ends commands that left the queue unsent. Not under mu: their owners are called.
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

// minPrune is how many commands come between two sweeps at the least.
const minPrune = 64

// prune takes what was given up, or is too late, out of a queue that nobody empties: while a
// dial hangs, or a write, which takes seconds, most of what waits was given up long ago. It does
// so whenever as many commands have come as the sweep before left, also if the queue had no room
// for them. Called under mu, for each command that is not written at once.
func (pl *pipeline) prune() (dropped []droppedCommand) {
	if pl.conn != nil && pl.queue.len() <= maxBatch {
		pl.untilPrune = min(pl.untilPrune, maxBatch) // it is not as long as it may have been
		return nil                                   // the writer is at it
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

// failUnsent makes commands fail at once until a connection stands again, and
// ends those that wait; undos are kept while they are of use. It reports whether
// that is news.
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
		case !c.Op.Undoes() || pl.closed || expired && !pl.mayStillExecute(c.Token):
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
