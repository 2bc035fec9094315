package pool

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// A caller may write itself on a connection that owes no answer, and no more than
// this: far below what any socket takes in without blocking (17 kB over a unix
// socket whose peer is frozen).
const (
	callerBytes    = 8 << 10
	callerCommands = 64
)

// crowd is from how many commands on a connection, queued or unanswered, its writer
// lets other goroutines run before it writes: what they queue meanwhile goes out in
// the same system call, which costs more than all else on this path. With fewer it
// writes at once, so that nobody pays for company that isn't there.
const crowd = 8

// batchMost and batchBytes are how much goes out in one write. More gains nothing,
// and what is stuck in a write to a frozen peer can't be given up any more.
const (
	batchMost  = 512
	batchBytes = 1 << 20
)

// watchParts is how many times within the hard timeout a link is looked at.
const watchParts = 4

// link is one connection's life. Its reader is the goroutine that calls run;
// its writer is a second one; a caller takes the writer's place for one batch
// where that can't block.
type link struct {
	lane    *lane
	session *session
	facts   facts // changed by the reader, under lane.mu

	wake    chan struct{} // to the writer; holds one
	dead    chan struct{} // closed by fail
	once    sync.Once
	err     error // why; readable once dead is closed
	writer  sync.WaitGroup
	callers sync.WaitGroup

	// Guarded by lane.mu:
	writing    bool // somebody has the right to write, or the writer was woken to take it
	unanswered ring // written, in order, and not yet taken over by the reader
	sent       int64
	watching   bool

	unfit   error       // why the server does not vote; nil when it does
	cleared *wire.Fleet // whose commands were held against all this last, and may pass
	joined  map[*wire.Fleet]bool
	looks   clock.Timer // of look
	guards  map[*wire.Fleet]*guard

	answered atomic.Int64

	batch []*wire.Command // of whoever has the right to write
	wants []any           // the markers that go behind their arguments; nil for most
	args  []any           // made of both
	due   []*wire.Command // the reader's: written, in order
	next  int             // the reader's: the first of due that is unanswered

	timer   clock.Timer // of watch
	seen    int64       // watch's: answered when it last looked
	strikes int         // watch's: looks without an answer
}

func newLink(l *lane, s *session, f facts) *link {
	unfit := verdict(findings(l.node.cfg.Name, l.node.cfg.Database, f.Facts))
	return &link{lane: l, session: s, facts: f, unfit: unfit, wake: make(chan struct{}, 1), dead: make(chan struct{})}
}

// run reads until the connection ends, and returns why, with the writer joined.
func (k *link) run() error {
	k.writer.Go(k.write)
	k.fail(k.read())
	k.writer.Wait()
	k.lane.mu.Lock()
	if k.timer != nil {
		k.timer.Stop()
	}
	k.lane.mu.Unlock()
	return k.err
}

// fail ends the connection; the first reason stands. Closing the socket is what
// frees a reader or writer that is blocked on it.
func (k *link) fail(err error) {
	k.once.Do(func() {
		k.err = err
		close(k.dead)
		k.session.abort()
	})
}

func (k *link) isDead() bool {
	select {
	case <-k.dead:
		return true
	default:
		return false
	}
}

func (k *link) silent() bool { return k.isDead() && errors.Is(k.err, ErrSilent) }

// idle reports whether a caller may write: nothing is owed on the connection, and
// what is queued fits. Called under lane.mu.
func (k *link) idle() bool {
	return k.sent == k.answered.Load() && k.lane.queue.peek().Size() <= callerBytes && k.lane.node.source.writable(k.session)
}

// crowded reports whether company is worth waiting for.
func (k *link) crowded() bool {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	return int(k.sent-k.answered.Load())+k.lane.queue.len() >= crowd
}

func (k *link) wakeWriter() {
	select {
	case k.wake <- struct{}{}:
	default: // woken already
	}
}

// write is the writer's goroutine. Whoever wakes it has set writing for it.
func (k *link) write() {
	for {
		select {
		case <-k.wake:
			for more := true; more; more = k.writeBatch(byWriter) {
				if k.crowded() {
					runtime.Gosched()
				}
			}
		case <-k.dead:
			return
		}
	}
}

// Who writes a batch.
const (
	byWriter = false
	byCaller = true // within the bounds of what can't block
)

// writeBatch writes what is queued in one system call and reports whether more
// is queued. If so the right to write stays with whom the caller wakes.
func (k *link) writeBatch(caller bool) (more bool) {
	if k.isDead() {
		return false // writing stays set: what is queued waits for the next link
	}
	dropped := k.takeBatch(caller)
	for _, d := range dropped {
		d.command.Drop(d.why)
	}
	if len(k.batch) > 0 {
		if err := k.send(); err != nil {
			k.fail(err)
			return false // writing stays set: nobody writes on a dead link
		}
		k.lane.node.count.written.Add(int64(len(k.batch)))
		k.lane.node.count.writes.Add(1)
	}
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	k.writing = k.lane.queue.len() > 0
	return k.writing
}

// takeBatch moves commands from the queue to those that are written. They are
// owed an answer from here on, before the first byte goes out.
func (k *link) takeBatch(caller bool) (dropped []drop) {
	l := k.lane
	var stale staleness
	l.mu.Lock()
	defer l.mu.Unlock()
	k.batch, k.wants = k.batch[:0], k.wants[:0]
	size := 0
	for len(k.batch) < batchMost && l.queue.len() > 0 {
		size += l.queue.peek().Size()
		if caller && (size > callerBytes || len(k.batch) >= callerCommands) || size > batchBytes && len(k.batch) > 0 {
			break
		}
		c := l.queue.pop()
		if k.isStray(c) {
			dropped = append(dropped, drop{c, ErrDisconnected})
			continue
		}
		if err := k.refuses(c); err != nil {
			dropped = append(dropped, drop{c, err})
			continue
		}
		want, first := k.takeGuarded(c)
		if first != nil {
			k.take(first, nil) // also for a command that is not sent: a quarantine begins as early as can be
		}
		if !c.Op.Undoes() && stale.past(c) || !c.Send() { // an undo is never too late: its acquire may be as late
			dropped = append(dropped, drop{c, whyDropped(c)})
			continue
		}
		k.take(c, want)
	}
	k.sent += int64(len(k.batch))
	k.watchLocked()
	return dropped
}

// take puts a command into the batch. Called under lane.mu.
func (k *link) take(c *wire.Command, want any) {
	k.batch, k.wants = append(k.batch, c), append(k.wants, want)
	k.unanswered.push(c)
}

// drop is a command that is not written, and why.
type drop struct {
	command *wire.Command
	why     error
}

func whyDropped(c *wire.Command) error {
	if c.Expired() {
		return wire.ErrExpired
	}
	return wire.ErrGivenUp
}

func (k *link) send() error {
	for i, c := range k.batch {
		name, args := c.Call(c.Source())
		if k.wants[i] != nil {
			args = append(append(k.args[:0], args...), k.wants[i])
			k.args = args
		}
		if err := k.session.redis.Send(name, args...); err != nil {
			return err
		}
	}
	return k.session.flush()
}

// read matches replies to commands in order, until the connection ends.
func (k *link) read() error {
	for {
		v, err := redis.ReceiveWithTimeout(k.session.redis, 0)
		if err != nil && k.session.redis.Err() != nil {
			return err
		}
		c := k.heard()
		if c == nil {
			return errProtocol
		}
		k.settle(c, v, err)
	}
}

// heard returns the command that a reply belongs to.
func (k *link) heard() *wire.Command {
	if k.next == len(k.due) {
		k.lane.mu.Lock()
		k.due, k.next = k.unanswered.popAll(k.due[:0]), 0
		k.lane.mu.Unlock()
		if len(k.due) == 0 {
			return nil
		}
	}
	c := k.due[k.next]
	k.due[k.next] = nil
	k.next++
	k.answered.Add(1)
	return c
}

func (k *link) settle(c *wire.Command, v any, err error) {
	k.lane.node.count.replies.Add(1)
	if err != nil && k.turns(err) { // before the answer, so that what its caller sends next waits for the dial
		k.fail(fmt.Errorf("%w (%w)", errTurned, serverError(err)))
	}
	if c.Op == wire.Examine {
		k.looked(v, err)
		c.Answer(wire.Reply{Outcome: wire.Granted})
		return
	}
	r := k.unmarked(c, decode(c, v, err))
	if unscripted(c, r) && c.Unsend() {
		k.lane.again(c)
		return
	}
	if c.Op.Undoes() {
		r.Pending = k.lane.repeat(c, r)
	}
	if r.Outcome == wire.Refused && c.Resent() {
		// What is not there any more it may have undone itself, the first time.
		r = wire.Reply{Outcome: wire.Unknown, Err: ErrDisconnected}
	}
	c.Answer(r)
}

// unscripted: the server does not know the script's hash (yet), and so executed
// nothing.
func unscripted(c *wire.Command, r wire.Reply) bool {
	return r.Outcome == wire.Failed && c.Scripted() && !c.Source() && answeredBy(r.Err, "NOSCRIPT")
}

func answeredBy(err error, code string) bool {
	var se *wire.ServerError
	return errors.As(err, &se) && se.Code == code
}

// unheard returns what was written and not answered, in order, once reader and
// writers have ended. Called under lane.mu.
func (k *link) unheard() []*wire.Command {
	left := append([]*wire.Command(nil), k.due[k.next:]...)
	return k.unanswered.popAll(left)
}

// watchLocked makes sure that the link is looked at while an answer is owed.
// It costs nothing per command: the timer goes on until a look finds nothing owed.
func (k *link) watchLocked() {
	if k.watching || len(k.batch) == 0 {
		return
	}
	k.watching, k.strikes, k.seen = true, 0, k.answered.Load()
	every := k.lane.node.cfg.HardTimeout / watchParts
	if k.timer == nil {
		k.timer = k.lane.node.cfg.Clock.AfterFunc(every, k.watch)
		return
	}
	k.timer.Reset(every)
}

// watch ends a connection on which nothing was heard for the hard timeout (and
// up to a quarter more) while answers were owed.
func (k *link) watch() {
	if k.isSilent() {
		k.fail(ErrSilent)
	}
}

func (k *link) isSilent() (silent bool) {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	answered := k.answered.Load()
	if answered == k.sent || k.lane.link != k {
		k.watching = false
		return false
	}
	k.strikes++
	if answered != k.seen {
		k.seen, k.strikes = answered, 0
	}
	if k.strikes >= watchParts {
		return true
	}
	k.timer.Reset(k.lane.node.cfg.HardTimeout / watchParts)
	return false
}

// staleness finds commands past their not-after instant with one reading of the
// clock for a whole batch.
type staleness struct {
	clock clock.Clock
	now   clock.Instant
}

func (s *staleness) past(c *wire.Command) bool {
	if c.Clock == nil {
		return false
	}
	if s.clock != c.Clock {
		s.clock, s.now = c.Clock, c.Clock.Now()
	}
	return !s.now.Before(c.NotAfter)
}
