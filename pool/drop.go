package pool

import "github.com/quorumlock/go-redlock/pool/wire"

// drop is a command that is not written, and why.
type drop struct {
	command *wire.Command
	why     error
}

// dropAll ends commands that left the queue unsent. Not under mu: their owners are called.
func dropAll(list []drop) {
	for _, d := range list {
		d.command.Fail(d.why)
	}
}

func whyDropped(c *wire.Command) error {
	if c.Expired() {
		return wire.ErrExpired
	}
	return wire.ErrGivenUp
}

func refuse(c *wire.Command, why error) {
	if cl, ok := why.(letGoError); ok { //nolint:errorlint // never wrapped
		cl.handBack(c)
	} else if why != nil {
		c.Answer(wire.Reply{Outcome: wire.Failed, NotSent: true, Err: why})
	}
}

// sweepLeast is how many commands come between two sweeps at the least.
const sweepLeast = 64

// sweep takes what was given up, or is too late, out of a queue that nobody empties: while a
// dial hangs, or a write, which takes seconds, most of what waits was given up long ago. It does
// so whenever as many commands have come as the sweep before left, also if the queue had no room
// for them. Called under mu, for each command that is not written at once.
func (l *lane) sweep() (dropped []drop) {
	if l.link != nil && l.queue.len() <= batchMost {
		l.sweepIn = min(l.sweepIn, batchMost) // it is not as long as it may have been
		return nil                            // the writer is at it
	}
	if l.sweepIn--; l.sweepIn > 0 {
		return nil
	}
	var stale staleness
	for range l.queue.len() {
		c := l.queue.pop()
		if !c.Op.Undoes() && (c.Cancelled() || stale.past(c)) {
			dropped = append(dropped, drop{c, whyDropped(c)})
			continue
		}
		l.queue.push(c)
	}
	l.sweepIn = max(sweepLeast, l.queue.len())
	return dropped
}

// failQueued makes commands fail at once until a connection stands again, and
// ends those that wait; undos are kept while they are of use. It reports whether
// that is news.
func (l *lane) failQueued(err error) (news bool) {
	l.mu.Lock()
	news = l.down == nil
	if l.closed {
		err = ErrClosed
	}
	l.down = err
	var dropped []drop
	for _, c := range l.queue.popAll(nil) {
		expired := c.Expired()
		switch {
		case !c.Op.Undoes() || l.closed || expired && !l.orphaned(c.Token):
			dropped = append(dropped, drop{c, err})
		case expired:
			dropped = append(dropped, drop{c, err})
			l.queue.push(legacy(c))
		default:
			l.queue.push(c)
		}
	}
	l.mu.Unlock()
	dropAll(dropped)
	return news
}
