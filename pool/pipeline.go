package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// pipeline is a queue of commands and the connection that serves it. It outlives its connections:
// undos wait in it for the next one.
//
// One goroutine (run) dials and reconnects. Callers of submit queue commands, and may write them.
// While a connection exists, its reader and its writer are two more goroutines.
type pipeline struct {
	node *Node

	// mu guards all below, and the fields of pipeConn that say so. Nothing blocks under it, and
	// no command is answered under it: an answer calls into the coordinator, which may submit to
	// this pipeline again.
	mu         sync.Mutex
	queue      ring      // commands that are not written yet
	untilPrune int       // how many commands may come before prune goes through the queue
	conn       *pipeConn // nil without a connection
	downErr    error     // why commands fail at once; nil while connected, or while a dial may still succeed
	closed     bool
	drained    bool // the pipeline belongs to a shard of a Cluster that was retired
	unacked    unackedAcquires
	retries    map[*wire.Request]*retryTimer // undos that will be sent once more, by request
	parked     parked
}

func newPipeline(n *Node) *pipeline { return &pipeline{node: n, untilPrune: minPrune} }

func (pl *pipeline) stats() (up bool, queued int) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.conn != nil, pl.queue.len()
}

// submit queues c, and behind it next unless next is nil. Both are queued under one lock, so no
// other command comes between them.
//
// The right to write is the field writing of the connection: the goroutine that sets it writes,
// or wakes the writer and hands the right to it. If no goroutine has it, a caller mostly offers
// the queue to the socket itself. What the socket does not accept at once, and what the library
// submits, is left to the writer: library goroutines must not wait for a peer (docs/dev/rules.md
// rule 23).
func (pl *pipeline) submit(c, behind *wire.Command) {
	pl.mu.Lock()
	wrong, wrongBehind := pl.enqueueLocked(c), pl.enqueueLocked(behind)
	k := pl.conn
	if k == nil || k.writing || pl.queue.len() == 0 {
		dropped := pl.pruneLocked()
		pl.mu.Unlock()
		refuse(c, wrong)
		refuse(behind, wrongBehind)
		failAll(dropped)
		return
	}
	k.writing = true
	here := c.Submitter == wire.ByCaller && k.callerMayWriteLocked()
	if here {
		k.callers.Add(1)
	}
	pl.mu.Unlock()
	refuse(c, wrong)
	refuse(behind, wrongBehind)
	if !here {
		k.wakeWriter()
		return
	}
	defer k.callers.Done()
	if k.writeBatch(byCaller) {
		k.wakeWriter()
	}
}

// enqueueLocked queues a command, or returns why it cannot be queued.
func (pl *pipeline) enqueueLocked(c *wire.Command) error {
	if c == nil {
		return nil
	}
	err := pl.rejectReasonLocked(c)
	if err == nil {
		pl.queue.push(c)
	}
	return err
}

// rejectReasonLocked returns why the command cannot be queued. Undos can always be queued except
// on a closed node: each belongs to an acquire that was written, and there are no more of them
// than acquires.
func (pl *pipeline) rejectReasonLocked(c *wire.Command) error {
	switch {
	case pl.drained:
		return drainedError{pl.node.shard.cluster}
	case pl.closed:
		return ErrClosed
	case c.Op.Undoes():
		return nil
	case pl.conn == nil && pl.downErr != nil:
		return pl.downErr
	case pl.queue.len() >= pl.node.cfg.Queue:
		return ErrQueueFull
	case pl.conn != nil:
		return pl.conn.rejectReasonLocked(c)
	}
	return nil
}

// run dials, serves the connection, and reconnects until ctx is done.
func (pl *pipeline) run(ctx context.Context) {
	redial := newBackoff(pl.node.cfg)
	for ctx.Err() == nil {
		k, err := pl.connect(ctx)
		if err == nil {
			var lived time.Duration
			lived, err = pl.serveConn(k)
			well := redial.ended(lived)
			pl.node.log("connection ended", err)
			if k.silent() {
				pl.failUnsent(err) // the server may be frozen, so a new dial may hang as well
			} else if well {
				pl.node.shard.connLost(pl)
				continue // most likely a restart: queued commands wait for one dial
			}
		} else if pl.failUnsent(fmt.Errorf("pool: no connection: %w", err)) && ctx.Err() == nil {
			pl.node.log("dial failed", err)
		}
		pl.node.shard.connLost(pl)
		redial.pause(ctx)
	}
	pl.failUnsent(ErrClosed)
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, c clock.Clock, d time.Duration) {
	over, stop := clock.After(c, d)
	defer stop()
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// connect dials, performs the handshake and deals with the acquires of the connections before it,
// all within the dial timeout.
func (pl *pipeline) connect(ctx context.Context) (*pipeConn, error) {
	n := pl.node
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	n.count.dials.Add(1)
	s, f, err := pl.open(ctx)
	if err != nil {
		n.count.dialFailures.Add(1)
		return nil, err
	}
	return newPipeConn(pl, s, f), nil
}

func (pl *pipeline) open(ctx context.Context) (*rawConn, facts, error) {
	s, err := pl.node.dialer.dial(ctx)
	if err != nil {
		return nil, facts{}, withoutContextError(err)
	}
	f, err := pl.node.handshake(ctx, s)
	if err == nil {
		err = pl.killDeadConns(ctx, s, f)
	}
	if err != nil {
		s.abort()
		s.close()
		return nil, f, withoutContextError(err)
	}
	return s, f, nil
}

// serveConn runs the connection until it ends, and deals with its unanswered commands. It returns
// how long the connection lasted.
func (pl *pipeline) serveConn(k *pipeConn) (lived time.Duration, err error) {
	began := pl.node.cfg.Clock.Now()
	pl.mu.Lock()
	if pl.closed || pl.node.life.Err() != nil { // close ends only the connection that it finds
		pl.mu.Unlock()
		k.raw.abort()
		k.raw.close()
		return 0, ErrClosed
	}
	pl.conn, pl.downErr, pl.untilPrune = k, nil, minPrune
	k.verifyAgainLocked()
	k.writing = pl.queue.len() > 0
	wake := k.writing
	k.scheduleCheckLocked()
	pl.probeSoonLocked()
	pl.mu.Unlock()
	pl.node.log("connected", nil)
	if k.unfit != nil { // only this goroutine writes it
		k.logFitness()
	}
	if wake {
		k.wakeWriter()
	}
	err = k.run()
	left := pl.detach(k)
	k.raw.close()
	for _, c := range left {
		c.Answer(wire.Reply{Outcome: wire.Unknown, Err: noAnswerReason(err)})
	}
	return pl.node.cfg.Clock.Now().Sub(began), err
}

// detach removes an ended connection. Unanswered undos stay in the queue for the next connection.
// Other unanswered commands are returned, to be answered as Unknown.
//
// The mutex is released to wait for callers that still write: they need it to finish. The
// unanswered commands are collected after that, because such a caller may have added some.
func (pl *pipeline) detach(k *pipeConn) (left []*wire.Command) {
	pl.mu.Lock()
	pl.conn = nil
	k.unregisterLocked()
	pl.mu.Unlock()
	k.callers.Wait() // no goroutine writes on the connection after this

	pl.mu.Lock()
	defer pl.mu.Unlock()
	now := pl.node.cfg.Clock.Now()
	pl.unacked.prune(now)
	for _, c := range k.unansweredCommandsLocked() {
		switch {
		case c.Op.Undoes() && !pl.closed && pl.outdatedLocked(c): // otherwise an undo would never end if every connection ends like this
			left = append(left, c)
			if c.Clock != nil && pl.mayStillExecuteLocked(c.Token) {
				pl.queue.push(detachedUndo(c))
			}
		case c.Op.Undoes() && !pl.closed:
			c.MarkResend()
			pl.queue.push(c)
		case c.Op.Creates():
			pl.unacked.add(c, k.facts)
			left = append(left, c)
		default:
			left = append(left, c)
		}
	}
	return left
}

// outdatedLocked reports whether an undo is no longer needed by its owner, because its keys have
// expired. An undo that detachedUndo made has no owner. It is needed while its acquire may still
// be executed.
func (pl *pipeline) outdatedLocked(c *wire.Command) bool {
	if c.Clock == nil {
		return c.To == nil && !pl.mayStillExecuteLocked(c.Token)
	}
	return c.Expired()
}

func (pl *pipeline) close() {
	pl.mu.Lock()
	pl.closed = true
	k := pl.conn
	pl.unacked.clear()
	left := pl.cancelRetriesLocked()
	pl.mu.Unlock()
	for _, c := range left {
		c.Fail(ErrClosed)
	}
	if k != nil {
		k.fail(ErrClosed)
	}
}
