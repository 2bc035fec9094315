package pool

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// pipeline drives one server: commands go to it in order, over connections that come and go. It outlives them: undos wait in the
// queue for the next one.
type pipeline struct {
	node     *Node
	queue    queue
	standing standing
	ledger   ledger
	link     atomic.Pointer[link] // nil while there is no connection
}

// newPipeline makes a pipeline without a connection. run connects it.
func newPipeline(n *Node) *pipeline {
	pl := &pipeline{node: n, queue: newQueue(n)}
	pl.standing.node, pl.standing.wake = n, pl.queue.wake
	pl.ledger.pl = pl
	return pl
}

// up reports whether there is a connection.
func (pl *pipeline) up() bool { return pl.link.Load() != nil }

// now returns the time of the node's clock.
func (pl *pipeline) now() clock.Instant { return pl.node.cfg.Clock.Now() }

// submit queues a command, and another one right behind it unless that is nil, and wakes the writer
// (docs/dev/rules.md rule 23). It returns why it does not take them: see command.Node.
func (pl *pipeline) submit(c, behind *command.Command) error {
	// What the server is known to be now only saves a wait: the writer asks again.
	unfit := pl.standing.admits(c)
	if unfit == nil && behind != nil {
		unfit = pl.standing.admits(behind)
	}
	return pl.queue.push(c, behind, unfit)
}

// whyNotVoting returns why the server would not vote now: see Node.WhyNotVoting. It asks for the admission of a poll, which a server
// gets only while it votes.
func (pl *pipeline) whyNotVoting() error {
	poll := &command.Command{Request: &command.Request{Op: command.Poll}}
	if err := pl.queue.refuses(poll, pl.standing.admits(poll)); err != nil {
		return err
	}
	return pl.standing.rejecting()
}

// run dials, serves the connection, and dials again until ctx is done.
func (pl *pipeline) run(ctx context.Context) {
	b := transport.NewRedial(pl.node.settings)
	b.Run(ctx, func(ctx context.Context) transport.Next { return pl.dialAndServe(ctx, b) })
	// On a closed pipeline this also answers the undos, which no connection will send.
	pl.failUnsent(ErrClosed)
}

// dialAndServe makes one connection and serves it. The goroutine that calls it is also its reader.
func (pl *pipeline) dialAndServe(ctx context.Context, b *transport.Redial) transport.Next {
	l, err := pl.connect(ctx)
	if err == nil {
		var lived time.Duration
		lived, err = pl.serve(l)
		// A short connection counts as a failed dial. The pause then grows, so that a server
		// that accepts connections only to drop them is not dialled without pause.
		well := b.Ended(lived)
		if errors.Is(err, ErrSilent) {
			pl.failUnsent(err) // the server may be frozen: nothing suggests that a dial would succeed now
		} else if well {
			// Queued commands remain: failUnsent is not called, and the next dial follows
			// without a pause.
			pl.node.kind.connEnded(pl)
			return transport.AtOnce // most likely a restart: commands wait for one dial
		}
	} else {
		// Only the first of several failed dials is logged, and before what it causes.
		if !pl.queue.failing() && ctx.Err() == nil {
			pl.node.log("dial failed", err)
		}
		// The commands that waited for this dial fail, and further ones fail at once until there
		// is a connection. So a dead node costs a caller no wait.
		pl.failUnsent(err)
	}
	// After failUnsent: what the pipeline does not fail may go to another shard of the
	// Cluster.
	pl.node.kind.connEnded(pl)
	return transport.AfterPause
}

// connect dials, does the handshake and ends the dead connections that left acquires unanswered, so
// that no late acquire can be executed behind an undo that is sent on the new connection. The dial
// timeout bounds all of it. Its errors match no context's error, because a caller would take that for
// its own deadline.
func (pl *pipeline) connect(ctx context.Context) (*link, error) {
	n := pl.node
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	n.count.dials.Add(1)
	conn, f, err := n.prepared(ctx)
	if err == nil {
		// Behind the handshake, which tells the server's run ID, and before the first command.
		if err = pl.ledger.endDeadConns(ctx, conn, f); err == nil {
			return newLink(pl, conn, f), nil
		}
		conn.Close()
	}
	n.count.dialFailures.Add(1)
	return nil, transport.WithoutContext(err)
}

// serve runs the connection until it ends, and handles its unanswered commands. It
// reports how long the connection lasted.
func (pl *pipeline) serve(l *link) (lived time.Duration, err error) {
	began := pl.now()
	pl.link.Store(l)
	// After the Store: close, and the end of a retired shard, first say that the node has ended and then look for a connection. So
	// either they end this one, or it is not served.
	if pl.queue.isClosed() || pl.node.life.Err() != nil { // ending the node ends only the connections that exist by then
		pl.link.Store(nil)
		l.conn.Close()
		return 0, ErrClosed
	}
	pl.standing.begin(l.conn, l.facts)
	pl.ledger.begin()
	pl.queue.begin()
	pl.node.log("connected", nil)
	err = l.run()
	if errors.Is(err, transport.ErrOutOfStep) || errors.Is(err, reply.ErrMerged) || errors.Is(err, ErrReplyLimit) {
		pl.node.count.violations.Add(1)
	}
	pl.link.Store(nil)
	pl.queue.end()
	left := pl.unanswered(l)
	pl.standing.end()
	why := err
	if l.conn.ClosedIdle() {
		why = nil // nothing to warn of
	}
	pl.node.log("connection ended", why) // before what it causes
	l.conn.Close()
	// Answered after the undos are queued: what an owner submits when it gets the answer is queued behind them.
	lost := command.Reply{Outcome: command.Unknown, Err: noAnswerReason(err)}
	for _, c := range left {
		c.Answer(lost)
	}
	pl.standing.Answer(nil, lost) // a VerifyMarker may have been wanted
	return pl.now().Sub(began), err
}

// unanswered queues the unanswered undos of an ended connection for the next one. It returns the other unanswered commands and the
// undos that are too late for their owners, which are to be answered as Unknown.
func (pl *pipeline) unanswered(l *link) (left []*command.Command) {
	pl.ledger.ended()
	closed := pl.queue.isClosed()
	for _, c := range l.left() {
		switch {
		case c.Op.Undoes() && !closed && pl.node.expired(c): // it might be sent forever otherwise
			pl.ledger.undone(c)
		case c.Op.Undoes() && !closed:
			c.MarkResend()
			pl.queue.again(c)
			continue
		case c.Op.Creates():
			pl.ledger.lost(c, l.id()) // the server may execute it later
		}
		left = append(left, c)
	}
	return left
}

// failUnsent makes new commands fail at once until there is a connection again, and fails those that wait, but for undos that may be
// needed.
func (pl *pipeline) failUnsent(err error) {
	failed := pl.queue.fail(err)
	for _, d := range failed {
		if d.command.Op.Undoes() {
			pl.ledger.undone(d.command) // its owner gets the answer in time
		}
	}
	failAll(failed)
}

// withdraw removes and returns what is queued or parked and belongs elsewhere.
func (pl *pipeline) withdraw(elsewhere func(c *command.Command) bool) []*command.Command {
	return append(pl.queue.removeIf(elsewhere), pl.ledger.removeIf(elsewhere)...)
}

// drain removes all that is queued, parked, or to be swept. From now on passOn gets what would be queued again.
func (pl *pipeline) drain(passOn func(*command.Command)) (left []*command.Command) {
	queued := pl.queue.drain(passOn)
	parked, sweeps := pl.ledger.drain()
	return append(append(sweeps, queued...), parked...)
}

// end ends the connection, if there is one.
func (pl *pipeline) end(why error) {
	if l := pl.link.Load(); l != nil {
		l.conn.End(why)
	}
}

// close fails what waits for a retry, and ends the connection. Its run answers the rest.
func (pl *pipeline) close() {
	pl.queue.close() // before the connection is looked for: see serve
	for _, c := range pl.ledger.close() {
		c.Fail(ErrClosed)
	}
	pl.end(ErrClosed)
}
