package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/reply"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// pipeline is a queue of commands and the connection that serves it. It outlives its connections:
// undos wait in the queue for the next connection.
type pipeline struct {
	node *Node

	// mu guards all fields below, and the fields that pipeConn names. Nothing blocks under mu,
	// and no owner of a command is called: commands are answered after mu is unlocked, because
	// their owners may submit more. Functions whose names end in Locked are called under mu.
	mu         sync.Mutex
	queue      ring      // not written yet
	untilPrune int       // how many commands may come before prune goes through the queue
	conn       *pipeConn // nil while there is no connection
	downErr    error     // why commands fail at once; nil while connected, and while a dial may still succeed
	closed     bool
	handBack   func(*command.Command) // of a shard of a Cluster that was retired: routes a command again
	unacked    unackedAcquires
	parked     parked
	marker     session.Marker
}

// newPipeline makes a pipeline without a connection. run connects it.
func newPipeline(n *Node) *pipeline { return &pipeline{node: n, untilPrune: minPrune} }

// stats returns whether the pipeline is connected, and the length of its queue.
func (pl *pipeline) stats() (up bool, queued int) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.conn != nil, pl.queue.len()
}

// submit queues a command, and another one right behind it unless that is nil, and wakes the writer
// (docs/dev/rules.md rule 23). It returns why it does not take them: see command.Node.
func (pl *pipeline) submit(c, behind *command.Command) error {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	err := pl.rejectReasonLocked(c)
	if err == nil && behind != nil {
		err = pl.rejectReasonLocked(behind)
	}
	if err == nil {
		pl.queue.push(c)
		if behind != nil {
			pl.queue.push(behind)
		}
	}
	if !pl.wakeLocked() {
		// The queue may grow while a dial or a write is stuck, so commands that have expired are
		// removed here.
		pl.pruneLocked()
	}
	return err
}

// wakeLocked wakes the writer, and reports whether it did. It does not if there is nothing to
// write, or no connection, or if the writer will look at the queue anyway.
func (pl *pipeline) wakeLocked() bool {
	pc := pl.conn
	if pc == nil || pc.woken || pl.queue.len() == 0 && !pl.marker.Wanted() {
		return false
	}
	pc.woken = true
	pc.wake.Set()
	return true
}

// rejectReasonLocked returns why the command cannot be queued. An undo is always queued unless
// the node is closed or drained: it belongs to an acquire that was written, and ends with the
// acquire's keys.
func (pl *pipeline) rejectReasonLocked(c *command.Command) error {
	switch {
	// Before closed: a pipeline that was drained is also closed, and its commands go to the successor all
	// the same.
	case pl.handBack != nil:
		return errDrained
	case pl.closed:
		return ErrClosed
	case c.Op.Undoes():
		return nil
	case pl.conn == nil && pl.downErr != nil:
		return pl.downErr
	// After the undos, which the bound does not concern.
	case pl.queue.len() >= pl.node.cfg.Queue:
		return ErrQueueFull
	case pl.conn != nil:
		return pl.conn.admitLocked(c)
	}
	return nil
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
	pc, err := pl.connect(ctx)
	if err == nil {
		var lived time.Duration
		lived, err = pl.serveConn(pc)
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
		if !pl.failsAtOnce() && ctx.Err() == nil {
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
func (pl *pipeline) connect(ctx context.Context) (*pipeConn, error) {
	n := pl.node
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	n.count.dials.Add(1)
	s, f, err := n.prepared(ctx)
	if err == nil {
		// Behind the handshake, which tells the server's run ID, and before the first command.
		if err = pl.endDeadConns(ctx, s, f); err == nil {
			return newPipeConn(pl, s, f), nil
		}
		s.Close()
	}
	n.count.dialFailures.Add(1)
	return nil, transport.WithoutContext(err)
}

// serveConn runs the connection until it ends, and handles its unanswered commands. It
// reports how long the connection lasted.
func (pl *pipeline) serveConn(pc *pipeConn) (lived time.Duration, err error) {
	began := pl.node.cfg.Clock.Now()
	pl.mu.Lock()
	// This check and the assignment of pl.conn happen under one lock. So either close, or stop of
	// a retired shard, finds this connection and ends it, or this check finds that the node has
	// ended.
	if pl.closed || pl.node.life.Err() != nil { // ending the node ends only the connections that exist by then
		pl.mu.Unlock()
		pc.raw.Close()
		return 0, ErrClosed
	}
	// Under the same lock the failure of the dials before ends, and the rate of pruning begins
	// again.
	pl.conn, pl.downErr, pl.untilPrune = pc, nil, minPrune
	pl.marker.Connected()
	pl.wakeLocked() // for commands that waited for the dial; the writer starts in run
	pc.scheduleCheckLocked()
	pl.probeSoonLocked()
	pl.armSweepLocked()
	pl.mu.Unlock()
	pl.node.log("connected", nil)
	err = pc.run()
	if errors.Is(err, errProtocol) || errors.Is(err, reply.ErrMerged) || errors.Is(err, ErrReplyLimit) {
		pl.node.count.violations.Add(1)
	}
	left := pl.detach(pc)
	why := err
	if pc.raw.ClosedIdle() {
		why = nil // nothing to warn of
	}
	pl.node.log("connection ended", why) // before what it causes
	// After detach no goroutine reads or writes the connection, as close requires.
	pc.raw.Close()
	// Answered after detach has queued the undos: what an owner submits when it gets the answer
	// is queued behind them.
	for _, c := range left {
		c.Answer(command.Reply{Outcome: command.Unknown, Err: noAnswerReason(err)})
	}
	markerCheck{pc}.Answer(nil, command.Reply{Outcome: command.Unknown, Err: noAnswerReason(err)}) // one may have been wanted
	return pl.node.cfg.Clock.Now().Sub(began), err
}

// detach removes the ended connection. It queues the unanswered undos for the next connection. It
// returns the other unanswered commands and the undos that are too late for their owners, which are
// to be answered as Unknown.
func (pl *pipeline) detach(pc *pipeConn) (left []*command.Command) {
	// Reader and writer have ended, so that no more commands join those that are unanswered.
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.conn = nil
	pc.leaveLocked()
	now := pl.node.cfg.Clock.Now()
	pl.unacked.Prune(now)
	for _, c := range pc.unansweredCommandsLocked() {
		switch {
		case c.Op.Undoes() && !pl.closed && pl.node.expired(c): // it might be sent forever otherwise
			pl.sweepLaterLocked(c)
		case c.Op.Undoes() && !pl.closed:
			c.MarkResend()
			pl.queue.push(c)
			continue
		case c.Op.Creates() && !pl.unacked.Lost(c, pc.id()): // the server may execute it later
			pl.node.countDropped(errTooManyUnacked)
		}
		left = append(left, c)
	}
	return left
}

// close fails what waits for a retry, and ends the connection. Its run answers the rest.
func (pl *pipeline) close() {
	pl.mu.Lock()
	// closed is set and conn is read under one lock: see serveConn.
	pl.closed = true
	pc := pl.conn
	left := pl.endRetriesLocked()
	pl.mu.Unlock()
	// Outside mu, because this calls the owners of the commands.
	for _, c := range left {
		c.Fail(ErrClosed)
	}
	if pc != nil {
		pc.raw.End(ErrClosed)
	}
}
