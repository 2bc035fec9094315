package pool

import (
	"runtime"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// A caller may write itself on a connection that owes one answer at most, and no more
// than this together with what is unanswered: far below what any socket takes in
// without blocking (17 kB over a unix socket whose peer is frozen).
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

// idle reports whether a caller may write: what is queued fits. Called under lane.mu.
func (k *link) idle() bool {
	return k.unread()+k.lane.queue.peek().Size() <= callerBytes && k.lane.node.source.writable(k.session)
}

// unread is how many bytes the peer may not have read yet, as far as callers may add to
// them. One command mostly is unanswered: a caller goes on when a majority has answered, and
// the last node's answer is still on its way. Called under lane.mu.
func (k *link) unread() int {
	switch k.sent - k.answered.Load() {
	case 0:
		return 0
	case 1:
		return k.last
	}
	return callerBytes
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
					runtime.Gosched() // once: where others compute, each time may take a time slice of theirs
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
	if caller {
		size = k.unread()
	}
	for len(k.batch) < batchMost && l.queue.len() > 0 {
		next := l.queue.peek().Size()
		size += next
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
		if c.Asking {
			k.take(newAsking(), nil) // right before it, and for it alone
		}
		k.take(c, want)
		k.last = next
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

// newAsking is a command whose answer nobody waits for.
func newAsking() *wire.Command {
	r := &wire.Request{}
	wire.NewAsking(r)
	c := &wire.Command{Request: r}
	c.Send()
	return c
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
