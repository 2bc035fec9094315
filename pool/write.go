package pool

import (
	"runtime"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// crowd is from how many callers of a connection whoever writes lets other goroutines run
// first: what they queue meanwhile goes out in the same system call, which costs more than
// all else on this path. One caller alone has two commands under way at the most, its own and
// one whose answer it did not wait for, and does not pay for company that isn't there.
const crowd = 3

// remembered bounds how large a crowd is remembered, which fades by one with each write: who is
// alone again soon after a burst pays for it no longer.
const remembered = 4 * crowd

// batchMost and batchBytes are how much goes out in one write. More gains nothing,
// and what is stuck in a write to a frozen peer can't be given up any more.
const (
	batchMost  = 512
	batchBytes = 1 << 20
)

// crowded reports whether there was company lately. What is under way now would not tell:
// the first caller to be answered would write alone, and so would each behind it.
func (k *link) crowded() bool { return k.lately >= crowd }

// remember books how many came together: in this batch, or as answers since the one before,
// whose callers are about to come. What is unanswered says nothing where the peer is frozen.
func (k *link) remember() {
	answered := k.answered.Load()
	k.lately = min(remembered, max(len(k.batch), int(answered-k.before), k.lately-1))
	if answered != k.before {
		k.row, k.before = 0, answered
	}
	if len(k.batch) == 0 {
		return // all was given up: no answer is owed for it
	}
	if k.row++; k.row == crowd {
		k.silentSince = k.lane.node.cfg.Clock.Now()
	}
}

// From silence on, the writer holds back what is for a peer that has not answered since, for so
// small a share of that time, and holdMost at the most. A frozen peer would cost a system call
// for each few commands, which are all in vain; what is given up meanwhile is never sent. Who
// is far away answers later than that at first, and not once answers flow.
const (
	silence   = 50 * time.Millisecond
	holdShare = 50
	holdMost  = 10 * time.Millisecond
)

// inVain reports whether several batches were written in a row without an answer between.
func (k *link) inVain() bool { return k.row >= crowd && k.before == k.answered.Load() }

// holdBack waits before the next batch where the peer is silent.
func (k *link) holdBack() {
	if !k.inVain() {
		return
	}
	silent := k.lane.node.cfg.Clock.Now().Sub(k.silentSince)
	if silent < silence {
		return
	}
	over, stop := clock.After(k.lane.node.cfg.Clock, min(silent/holdShare, holdMost))
	defer stop()
	select {
	case <-over:
	case <-k.dead:
	}
}

// mayOffer reports whether a caller writes itself. It does not where several were written
// in a row without an answer between: one goroutine that submits many (extensions that fall
// due together) would make each a system call, and to a frozen peer all are in vain. Called
// under lane.mu while nobody writes.
func (k *link) mayOffer() bool {
	return k.session.offers() && !k.inVain()
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
			for k.writeBatch(byWriter) {
			}
		case <-k.dead:
			return
		}
	}
}

// Who writes a batch.
const (
	byWriter = false
	byCaller = true // as far as the socket takes it in at once
)

// writeBatch writes what is queued in one system call and reports whether something is
// left. If so the right to write stays with whom the caller wakes.
func (k *link) writeBatch(caller bool) (more bool) {
	if k.session.owes() && !k.wrote(k.session.flush()) { // before more is taken: what is still queued can be given up
		return false
	}
	if !caller {
		k.holdBack()
	}
	if k.crowded() {
		runtime.Gosched() // once: where others compute, each time may take a time slice of theirs
	}
	if k.isDead() {
		return false // writing stays set: what is queued waits for the next link
	}
	dropAll(k.takeBatch())
	if len(k.batch) > 0 && !k.wrote(k.send(caller)) {
		return false // writing stays set: nobody writes on a dead link
	}
	k.lane.node.count.written.Add(int64(len(k.batch)))
	clear(k.batch) // each command leads to its Locker, which may be closed while the connection lives
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	k.writing = k.lane.queue.len() > 0 || k.session.owes()
	return k.writing
}

// wrote counts a write, or ends the link for its error.
func (k *link) wrote(err error) bool {
	if err != nil {
		k.fail(err)
		return false
	}
	k.lane.node.count.writes.Add(1)
	return true
}

// takeBatch moves commands from the queue to those that are written. They are
// owed an answer from here on, before the first byte goes out.
func (k *link) takeBatch() (dropped []drop) {
	l := k.lane
	var stale staleness
	l.mu.Lock()
	defer l.mu.Unlock()
	k.batch, k.wants = k.batch[:0], k.wants[:0]
	size := 0
	for len(k.batch) < batchMost && l.queue.len() > 0 {
		if size += l.queue.peek().Size(); size > batchBytes && len(k.batch) > 0 {
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
		if !c.Op.Undoes() && stale.past(c) || !c.MarkSent() { // an undo is never too late: its acquire may be as late
			dropped = append(dropped, drop{c, whyDropped(c)})
			continue
		}
		if c.Asking {
			k.take(newAsking(), nil) // right before it, and for it alone
		}
		k.take(c, want)
	}
	k.sent += int64(len(k.batch))
	k.remember()
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
	c.MarkSent()
	return c
}

func (k *link) send(caller bool) error {
	for i, c := range k.batch {
		name, args := c.Call(c.UsesEval())
		if k.wants[i] != nil {
			args = append(append(k.args[:0], args...), k.wants[i])
			k.args = args
		}
		if err := k.session.redis.Send(name, args...); err != nil {
			return err
		}
	}
	if caller {
		return k.session.offer()
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
