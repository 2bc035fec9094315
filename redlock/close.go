package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// closing is one call of Close. Nothing is acquired any more when it begins.
type closing struct {
	l     *core
	ctx   context.Context
	began clock.Instant
	grace time.Duration // how long deletions are awaited if the context had ended before the call

	idle   bool // all locks were awaited
	undone bool // no undo was pending when the context had ended
}

// await tells the holders to stop, and waits for their locks, for deletions and for the log.
func (c *closing) await() {
	held := slices.DeleteFunc(c.l.registry.all(), func(h *hold) bool { return !lockOf(h).isHeld() })
	for _, h := range held {
		if h.opts.leads {
			lockOf(h).cancelContext(ErrClosed)
		}
	}
	tellAll := c.stopHolders(held)
	c.idle = c.awaitEnds(c.l.registry.all(), c.ctx.Done())
	tellAll()
	until := c.l.now().Add(c.l.set.readTimeout())
	if c.undone = true; !c.idle {
		c.undone, until = c.awaitUndos(), c.began.Add(c.grace)
	}
	c.l.ends.Join(c.l.set.clock, max(0, until.Sub(c.l.now())))
	c.l.undos.Join(c.l.set.clock, max(0, until.Sub(c.l.now())))
	c.awaitLog(until)
}

// stopHolders begins to tell the holders to stop, each in time before the deadline of the context, and all when that
// ends. What it returns tells those that were not told, and waits until all are.
func (c *closing) stopHolders(held []*hold) (tellAll func()) {
	began, left := c.l.now(), time.Duration(0)
	deadline, bounded := c.ctx.Deadline()
	if bounded {
		left = deadline.Sub(time.UnixMicro(c.l.set.wall()))
	}
	slices.SortFunc(held, func(a, b *hold) int { return cmp.Compare(c.margin(b), c.margin(a)) })
	now, told, ended := make(chan struct{}), make(chan struct{}), c.ctx.Done()
	go func() {
		defer close(told)
		for _, h := range held {
			at := began.Add(left - min(c.margin(h), left/4))
			if !bounded {
				at = noDeadline
			}
			awaitUntil(c.l.set.clock, at, ended, now)
			c.stop(h)
		}
	}()
	return func() {
		close(now)
		<-told
	}
}

// margin returns how long before the deadline a holder is told to stop.
func (c *closing) margin(h *hold) time.Duration {
	return max(c.l.set.timeout(h.opts.ttl), h.lease.Terms.StopMargin)
}

// stop ends the context of a lock that is still held, and its extensions: Close gives it up.
func (c *closing) stop(h *hold) {
	lk := lockOf(h)
	if !lk.isHeld() {
		return // it has a cause of its own
	}
	lk.cancelContext(ErrClosed)
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.lease.StopExtending()
	lk.scheduleLocked()
}

// awaitEnds waits until the locks have ended, and their undos are answered or Close waits for them no longer.
// It returns false if end is closed before.
func (c *closing) awaitEnds(locks []*hold, end <-chan struct{}) bool {
	for _, h := range locks {
		for change, left := c.l.registry.next(h); left; change, left = c.l.registry.next(h) {
			switch until := c.awaitedUntil(h); {
			case !c.l.now().Before(until):
				c.l.registry.giveUp(h, c.l.now())
			case isOver(end):
				return false
			default:
				awaitUntil(c.l.set.clock, until, change, end)
			}
		}
	}
	return true
}

// awaitedUntil returns until when Close waits for the undo of a lock. By then every reachable node had time
// to answer on a new connection: the nodes themselves notice a failure only when a connection ends or a dial
// fails, and a frozen server keeps both open for seconds. If the keys may block a quorum for other clients,
// Close waits on until a quorum has confirmed the release or the keys have expired.
func (c *closing) awaitedUntil(h *hold) clock.Instant {
	undo := h.keys.undo.Load()
	if undo == nil || !undo.Decided() { // the node timeout bounds the decision
		return noDeadline
	}
	var confirmed bool
	undo.View(func(s *vote.Ballots) { confirmed = s.Confirmed() })
	at, now := undo.Start.Add(recovery(c.l.nodes)), c.l.now()
	if !now.Before(at) && h.wasHeld() && !confirmed {
		at = now.Add(time.Second)
	}
	return min(undo.Request.NotAfter, at)
}

// awaitUndos waits up to the grace period for undos. It returns false if one is still pending.
func (c *closing) awaitUndos() bool {
	over, stop := timer.After(c.l.set.clock, c.grace)
	defer stop()
	return c.awaitEnds(slices.DeleteFunc(c.l.registry.all(), func(h *hold) bool { return lockOf(h).isHeld() }), over)
}

// awaitUntil waits until an instant, or until one of the channels is closed.
func awaitUntil(c clock.Clock, at clock.Instant, a, b <-chan struct{}) {
	var over <-chan struct{}
	if at != noDeadline {
		fired, stop := timer.After(c, max(0, at.Sub(c.Now())))
		defer stop()
		over = fired
	}
	select {
	case <-a:
	case <-b:
	case <-over:
	}
}

// result closes the nodes, and returns what is left then. cause is why the context has ended, if it has.
func (c *closing) result(cause error) (err error) {
	c.l.waiting.Close()
	held, left := c.leftovers()
	switch {
	case !c.idle && len(held) > 0:
		slices.Sort(held)
		err = fmt.Errorf("redlock: close: %w; locks still held until their TTL: %s", cause, quoted(held))
	case !c.idle && left != nil, !c.undone:
		err = fmt.Errorf("redlock: close: %w", cause)
	}
	if err == nil {
		err = left
	} else if left != nil {
		err = fmt.Errorf("%w; %w", err, left)
	}
	return oneline.Join(err, closeAll(c.l.nodes))
}

// leftovers returns the names of the locks that are still held, and ErrKeysLeft with details, or nil if no
// key of the other locks is left to expire. It counts locks that Close did not wait for, and those that are
// still being undone.
func (c *closing) leftovers() (held []string, err error) {
	l := c.l
	now, left := l.now(), l.registry.leftover()
	for _, h := range l.registry.all() {
		undo := h.keys.undo.Load()
		switch {
		case lockOf(h).isHeld():
			held = append(held, h.holder.Names...)
		case !l.registry.has(h):
		case undo != nil && undo.Decided():
			left.add(undo.Request.NotAfter, now)
		case errors.Is(h.endCause(), ErrDetached): // its keys are kept
		default: // its undo may be in submission
			h.mu.Lock()
			if !h.keys.resumed || !h.lease.Acquiring() { // an unfinished Resume has written nothing
				left.add(now.Add(h.keys.longest), now)
			}
			h.mu.Unlock()
		}
	}
	if left.locks == 0 || !now.Before(left.until) {
		return held, nil
	}
	expiry := left.until.Sub(now).Round(time.Millisecond)
	return held, fmt.Errorf("%w: locks: %d, within %v", ErrKeysLeft, left.locks, expiry)
}

// awaitLog waits until each loss is in the log, but no longer than until an instant. A process often ends right
// after a loss.
func (c *closing) awaitLog(until clock.Instant) {
	l := c.l
	if l.holdLog == nil {
		return
	}
	for l.now().Before(until) {
		change := l.registry.change()
		if l.registry.asking.Load() <= 0 {
			break
		}
		awaitUntil(l.set.clock, until, change, nil)
	}
	l.reporter.JoinLines(l.set.clock, max(0, until.Sub(l.now())))
}
