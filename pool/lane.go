package pool

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// lane is a queue of commands and the connection that serves it. It outlives its
// connections: undos wait in it for the next one.
type lane struct {
	node *Node

	// mu guards all below, and what link says it guards. Under it nothing blocks
	// and nobody is called: commands are answered after it is given up.
	mu      sync.Mutex
	queue   ring  // not written yet
	sweepIn int   // how many commands come before sweep goes through the queue
	link    *link // nil while there is no connection
	down    error // why commands fail at once; nil while up, or while a dial may still succeed
	closed  bool
	letGo   bool // it is of a member of a Cluster that was let go
	orphans orphans
	repeats map[*wire.Request]*repetition // by the undo
	parked  parked
}

func newLane(n *Node) *lane { return &lane{node: n, sweepIn: sweepLeast} }

func (l *lane) state() (up bool, queued int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.link != nil, l.queue.len()
}

// submit queues the command, with another one behind it unless that is nil. Where nobody
// writes a caller mostly offers what is queued to the socket itself; what that does not take
// in at once, and what the library submits, is left to the writer (docs/rules.md rule 23).
func (l *lane) submit(c, behind *wire.Command) {
	l.mu.Lock()
	wrong, wrongBehind := l.enqueue(c), l.enqueue(behind)
	k := l.link
	if k == nil || k.writing || l.queue.len() == 0 {
		dropped := l.sweep()
		l.mu.Unlock()
		refuse(c, wrong)
		refuse(behind, wrongBehind)
		dropAll(dropped)
		return
	}
	k.writing = true
	here := c.Submitter == wire.ByCaller && k.mayOffer()
	if here {
		k.callers.Add(1)
	}
	l.mu.Unlock()
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
func (l *lane) enqueue(c *wire.Command) error {
	if c == nil {
		return nil
	}
	err := l.refuses(c)
	if err == nil {
		l.queue.push(c)
	}
	return err
}

// refuses says why the command can't be queued. Undos always can, but on a closed
// node: each belongs to an acquire that was written, and ends with its keys.
func (l *lane) refuses(c *wire.Command) error {
	switch {
	case l.letGo:
		return letGoError{l.node.member.cluster}
	case l.closed:
		return ErrClosed
	case c.Op.Undoes():
		return nil
	case l.link == nil && l.down != nil:
		return l.down
	case l.queue.len() >= l.node.cfg.Queue:
		return ErrQueueFull
	case l.link != nil:
		return l.link.refuses(c)
	}
	return nil
}

// keepUp dials, serves, and dials anew until ctx is done.
func (l *lane) keepUp(ctx context.Context) {
	redial := newBackoff(l.node.cfg)
	for ctx.Err() == nil {
		k, err := l.connect(ctx)
		if err == nil {
			var lived time.Duration
			lived, err = l.serve(k)
			well := redial.ended(lived)
			l.node.log("connection ended", err)
			if k.silent() {
				l.failQueued(err) // nothing says that a dial would fare better
			} else if well {
				l.node.member.trouble(l)
				continue // a restart, most likely: commands wait for one dial
			}
		} else if l.failQueued(fmt.Errorf("pool: no connection: %w", err)) && ctx.Err() == nil {
			l.node.log("dial failed", err)
		}
		l.node.member.trouble(l)
		redial.pause(ctx)
	}
	l.failQueued(ErrClosed)
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
func (l *lane) connect(ctx context.Context) (*link, error) {
	n := l.node
	ctx, cancel := context.WithTimeout(ctx, n.cfg.DialTimeout)
	defer cancel()
	n.count.dials.Add(1)
	s, f, err := l.open(ctx)
	if err != nil {
		n.count.dialFailures.Add(1)
		return nil, err
	}
	return newLink(l, s, f), nil
}

func (l *lane) open(ctx context.Context) (*session, facts, error) {
	s, err := l.node.source.dial(ctx)
	if err != nil {
		return nil, facts{}, severed(err)
	}
	f, err := l.node.handshake(ctx, s)
	if err == nil {
		err = l.killOld(ctx, s, f)
	}
	if err != nil {
		s.abort()
		s.close()
		return nil, f, severed(err)
	}
	return s, f, nil
}

// serve runs the link until it ends, and sorts out what it leaves. It reports for how long
// the link lived.
func (l *lane) serve(k *link) (lived time.Duration, err error) {
	began := l.node.cfg.Clock.Now()
	l.mu.Lock()
	if l.closed || l.node.life.Err() != nil { // whoever ends the node ends the links that stand by then
		l.mu.Unlock()
		k.session.abort()
		k.session.close()
		return 0, ErrClosed
	}
	l.link, l.down, l.sweepIn = k, nil, sweepLeast
	k.renew()
	k.writing = l.queue.len() > 0
	wake := k.writing
	k.lookLater()
	l.probeSoon()
	l.mu.Unlock()
	l.node.log("connected", nil)
	if k.unfit != nil { // written by this goroutine alone
		k.tellFitness()
	}
	if wake {
		k.wakeWriter()
	}
	err = k.run()
	left := l.retire(k)
	k.session.close()
	for _, c := range left {
		c.Answer(wire.Reply{Outcome: wire.Unknown, Err: ended(err)})
	}
	return l.node.cfg.Clock.Now().Sub(began), err
}

// retire takes the ended link away. What it had written and not heard of is kept
// when it is an undo, and returned to be answered as Unknown when it isn't.
func (l *lane) retire(k *link) (left []*wire.Command) {
	l.mu.Lock()
	l.link = nil
	k.leave()
	l.mu.Unlock()
	k.callers.Wait() // nobody writes on it any more

	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.node.cfg.Clock.Now()
	l.orphans.sweep(now)
	for _, c := range k.unheard() {
		switch {
		case c.Op.Undoes() && !l.closed && l.outdated(c): // as every connection may end in this way
			left = append(left, c)
			if c.Clock != nil && l.orphaned(c.Token) {
				l.queue.push(legacy(c))
			}
		case c.Op.Undoes() && !l.closed:
			c.MarkResend()
			l.queue.push(c)
		case c.Op.Creates():
			l.orphans.add(c, k.facts)
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
func (l *lane) outdated(c *wire.Command) bool {
	if c.Clock == nil {
		return c.To == nil && !l.orphaned(c.Token)
	}
	return c.Expired()
}

func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	k := l.link
	l.orphans.clear()
	left := l.endRepeats()
	l.mu.Unlock()
	for _, c := range left {
		c.Fail(ErrClosed)
	}
	if k != nil {
		k.fail(ErrClosed)
	}
}
