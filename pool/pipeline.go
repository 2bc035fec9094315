package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// pipeline is a queue of commands and the connection that serves it. It outlives its
// connections: undos wait in it for the next one.
type pipeline struct {
	node *Node

	// mu guards all below, and what link says it guards. Under it nothing blocks
	// and nobody is called: commands are answered after it is given up.
	mu         sync.Mutex
	queue      ring      // not written yet
	untilPrune int       // how many commands come before sweep goes through the queue
	conn       *pipeConn // nil while there is no connection
	downErr    error     // why commands fail at once; nil while up, or while a dial may still succeed
	closed     bool
	drained    bool // it is of a member of a Cluster that was let go
	unacked    unackedAcquires
	retries    map[*wire.Request]*retryTimer // by the undo
	parked     parked
}

func newPipeline(n *Node) *pipeline { return &pipeline{node: n, untilPrune: minPrune} }

func (pl *pipeline) stats() (up bool, queued int) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return pl.conn != nil, pl.queue.len()
}

// submit queues the command, with another one behind it unless that is nil. Where nobody
// writes a caller mostly offers what is queued to the socket itself; what that does not take
// in at once, and what the library submits, is left to the writer (docs/dev/rules.md rule 23).
func (pl *pipeline) submit(c, behind *wire.Command) {
	pl.mu.Lock()
	wrong, wrongBehind := pl.enqueue(c), pl.enqueue(behind)
	k := pl.conn
	if k == nil || k.writing || pl.queue.len() == 0 {
		dropped := pl.prune()
		pl.mu.Unlock()
		refuse(c, wrong)
		refuse(behind, wrongBehind)
		failAll(dropped)
		return
	}
	k.writing = true
	here := c.Submitter == wire.ByCaller && k.callerMayWrite()
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

// enqueue puts a command into the queue, or says why it can't be there. Called under mu.
func (pl *pipeline) enqueue(c *wire.Command) error {
	if c == nil {
		return nil
	}
	err := pl.rejectReason(c)
	if err == nil {
		pl.queue.push(c)
	}
	return err
}

// rejectReason says why the command can't be queued. Undos always can, but on a closed
// node: each belongs to an acquire that was written, and ends with its keys.
func (pl *pipeline) rejectReason(c *wire.Command) error {
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
		return pl.conn.rejectReason(c)
	}
	return nil
}

// run dials, serves, and dials anew until ctx is done.
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
				pl.failUnsent(err) // nothing says that a dial would fare better
			} else if well {
				pl.node.shard.connLost(pl)
				continue // a restart, most likely: commands wait for one dial
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

// connect dials, shakes hands and sees to the acquires that the connections
// before it left behind, all under the dial timeout.
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

// serveConn runs the link until it ends, and sorts out what it leaves. It reports for how long
// the link lived.
func (pl *pipeline) serveConn(k *pipeConn) (lived time.Duration, err error) {
	began := pl.node.cfg.Clock.Now()
	pl.mu.Lock()
	if pl.closed || pl.node.life.Err() != nil { // whoever ends the node ends the links that stand by then
		pl.mu.Unlock()
		k.raw.abort()
		k.raw.close()
		return 0, ErrClosed
	}
	pl.conn, pl.downErr, pl.untilPrune = k, nil, minPrune
	k.verifyAgainLocked()
	k.writing = pl.queue.len() > 0
	wake := k.writing
	k.scheduleCheck()
	pl.probeSoon()
	pl.mu.Unlock()
	pl.node.log("connected", nil)
	if k.unfit != nil { // written by this goroutine alone
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

// detach takes the ended link away. What it had written and not heard of is kept
// when it is an undo, and returned to be answered as Unknown when it isn't.
func (pl *pipeline) detach(k *pipeConn) (left []*wire.Command) {
	pl.mu.Lock()
	pl.conn = nil
	k.unregister()
	pl.mu.Unlock()
	k.callers.Wait() // nobody writes on it any more

	pl.mu.Lock()
	defer pl.mu.Unlock()
	now := pl.node.cfg.Clock.Now()
	pl.unacked.prune(now)
	for _, c := range k.unansweredCommands() {
		switch {
		case c.Op.Undoes() && !pl.closed && pl.outdated(c): // as every connection may end in this way
			left = append(left, c)
			if c.Clock != nil && pl.mayStillExecute(c.Token) {
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

// outdated reports whether an undo is of no use to its owner any more: its keys have expired. One
// that legacy made has no owner, and is of use while its acquire may still be executed. Called
// under mu.
func (pl *pipeline) outdated(c *wire.Command) bool {
	if c.Clock == nil {
		return c.To == nil && !pl.mayStillExecute(c.Token)
	}
	return c.Expired()
}

func (pl *pipeline) close() {
	pl.mu.Lock()
	pl.closed = true
	k := pl.conn
	pl.unacked.clear()
	left := pl.cancelRetries()
	pl.mu.Unlock()
	for _, c := range left {
		c.Fail(ErrClosed)
	}
	if k != nil {
		k.fail(ErrClosed)
	}
}
