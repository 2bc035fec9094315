package redlock

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Close shuts the Locker down gracefully, like http.Server.Shutdown. New and waiting acquisitions
// fail with ErrClosed, and nothing is acquired any more. The contexts of Lead end at once, with cause
// ErrClosed, because a leader does not end by itself. Close then waits for the other holders to release
// their locks, and for the nodes to delete the keys of locks that have ended.
//
// The contexts of Do, Acquire and Resume end when ctx ends, with cause ErrClosed. If ctx has a deadline,
// they end before it, so that the holders have time to release. That is the node timeout, or WithStopMargin
// if that is longer, but at most a quarter of the time that was left when Close was called. Automatic
// extensions continue until then, also those of Lead. If ctx never ends, Close waits for as long as the
// holders take.
//
// Close waits for the node timeout at most until the log has the line of each lock that was lost.
//
// Close does not wait long for a minority of unreachable or frozen nodes. If a quorum has confirmed
// a release, or an attempt never became a lock, the other nodes get a limited time. It is the sum
// of their hard timeout and dial timeout (pool.Config, 10 s by default), from when their commands
// were submitted. Close waits for an unconfirmed release until its keys have expired. The error
// matches ErrKeysLeft if keys are left to expire by their TTL.
//
// Unlike Release, Close returns when ctx ends, because holders may take any time. Locks still held then
// are not released. They expire by their TTL. The error names a few of them ([Locker.Held] has all), and
// matches the cause of ctx.
// If ctx had ended before Close was called, pending deletions get the node timeout. Finally Close closes
// the nodes.
//
// Close may be called more than once, also concurrently. The call that ends first closes the nodes. It ends
// the others, and all return its error.
func (l *Locker) Close(ctx context.Context) error {
	if l.closing == nil { // not made by New
		return ErrClosed
	}
	began, grace := l.now(), time.Duration(0)
	if ctx.Err() != nil {
		grace = l.readTimeout()
	}
	l.beginClose()
	held := l.held()
	for _, lk := range held {
		if lk.opts.leads {
			lk.cancelContext(ErrClosed)
		}
	}
	tellAll := l.stopWork(ctx, held)
	idle := l.awaitEnds(l.liveLocks(), ctx.Done())
	tellAll()
	until, undone := l.now().Add(l.readTimeout()), true
	if !idle {
		undone, until = l.awaitUndos(grace), began.Add(grace)
	}
	l.ends.Join(l.set.clock, max(0, until.Sub(l.now())))
	l.undos.Join(l.set.clock, max(0, until.Sub(l.now())))
	l.awaitLog(until)
	if cause := context.Cause(ctx); l.beginFinish() {
		l.closeErr = l.finishClose(cause, idle, undone)
		close(l.closed)
	}
	<-l.closed
	return l.closeErr
}

// beginFinish reports whether this call of Close is the first that ends, and ends the waiting of the others.
func (l *Locker) beginFinish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.finishing
	l.finishing = true
	l.changed.Wake()
	return first
}

// finishClose closes the nodes, and returns what is left then. idle reports that Close has waited for all
// locks, and undone that no undo was pending when its context had ended, which it has for that cause.
func (l *Locker) finishClose(cause error, idle, undone bool) (err error) {
	l.waiting.Close()
	held, left := l.leftovers()
	switch {
	case !idle && len(held) > 0:
		slices.Sort(held)
		err = fmt.Errorf("redlock: close: %w; locks still held until their TTL: %s", cause, quoted(held))
	case !idle && left != nil, !undone:
		err = fmt.Errorf("redlock: close: %w", cause)
	}
	if err == nil {
		err = left
	} else if left != nil {
		err = fmt.Errorf("%w; %w", err, left)
	}
	return oneline.Join(err, closeAll(l.nodes))
}

// beginClose marks the Locker as closed.
func (l *Locker) beginClose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isClosed() {
		close(l.closing)
	}
}

// liveLocks lists the locks that are in acquisition, held, or being undone.
func (l *Locker) liveLocks() []*Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.locks))
}

// held lists the locks that are held now.
func (l *Locker) held() []*Lock {
	return slices.DeleteFunc(l.liveLocks(), func(lk *Lock) bool { return !lk.isHeld() })
}

// stopWork begins to tell the holders to stop, each in time before the deadline of ctx, and all when ctx
// ends. What it returns tells those that were not told, and waits until all are.
func (l *Locker) stopWork(ctx context.Context, held []*Lock) (tellAll func()) {
	began, left := l.now(), time.Duration(0)
	deadline, bounded := ctx.Deadline()
	if bounded {
		left = deadline.Sub(time.UnixMicro(l.set.wall()))
	}
	slices.SortFunc(held, func(a, b *Lock) int { return cmp.Compare(b.closeMargin(), a.closeMargin()) })
	now, told, ended := make(chan struct{}), make(chan struct{}), ctx.Done()
	go func() {
		defer close(told)
		for _, lk := range held {
			at := began.Add(left - min(lk.closeMargin(), left/4))
			if !bounded {
				at = noDeadline
			}
			l.awaitUntil(at, ended, now)
			lk.stopWork()
		}
	}()
	return func() {
		close(now)
		<-told
	}
}

// closeMargin returns how long before the deadline of Close a holder is told to stop.
func (lk *Lock) closeMargin() time.Duration {
	return max(lk.l.set.timeout(lk.opts.ttl), lk.lease.Terms.StopMargin)
}

// stopWork ends the context of a lock that is still held, and its extensions: Close gives it up.
func (lk *Lock) stopWork() {
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
func (l *Locker) awaitEnds(locks []*Lock, end <-chan struct{}) bool {
	for _, lk := range locks {
		for change, left := l.nextChange(lk); left; change, left = l.nextChange(lk) {
			switch until := lk.awaitedUntil(); {
			case !l.now().Before(until):
				l.giveUp(lk)
			case isOver(end):
				return false
			default:
				l.awaitUntil(until, change, end)
			}
		}
	}
	return true
}

// awaitedUntil returns until when Close waits for the undo of a lock. By then every reachable node had time
// to answer on a new connection: the nodes themselves notice a failure only when a connection ends or a dial
// fails, and a frozen server keeps both open for seconds. If the keys may block a quorum for other clients,
// Close waits on until a quorum has confirmed the release or the keys have expired.
func (lk *Lock) awaitedUntil() clock.Instant {
	undo := lk.keys.undo.Load()
	if undo == nil || !undo.Decided() { // the node timeout bounds the decision
		return noDeadline
	}
	var confirmed bool
	undo.View(func(s *vote.Ballots) { confirmed = s.Confirmed() })
	at, now := undo.Start.Add(recovery(lk.l.nodes)), lk.l.now()
	if !now.Before(at) && lk.wasHeld() && !confirmed {
		at = now.Add(time.Second)
	}
	return min(undo.Request.NotAfter, at)
}

// wasHeld reports whether the acquisition, which is over, has got the lock.
func (lk *Lock) wasHeld() bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return !lk.lease.Acquiring()
}

// giveUp unregisters a lock whose undo Close no longer waits for. A call of Close that ends counts those that
// are registered.
func (l *Locker) giveUp(lk *Lock) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.finishing && l.locks[lk.args.Token()] == lk {
		delete(l.locks, lk.args.Token())
		l.leftover.add(lk.keys.undo.Load().Request.NotAfter, now)
	}
}

// leftover counts locks whose keys were not deleted on every node.
type leftover struct {
	locks int
	until clock.Instant // when the last of the keys expires
}

func (l *leftover) add(until, now clock.Instant) {
	if now.Before(until) {
		l.locks, l.until = l.locks+1, max(l.until, until)
	}
}

// leftovers returns the names of the locks that are still held, and ErrKeysLeft with details, or nil if no
// key of the other locks is left to expire. It counts locks that Close did not wait for, and those that are
// still being undone.
func (l *Locker) leftovers() (held []string, err error) {
	now := l.now()
	l.mu.Lock()
	left := l.leftover
	l.mu.Unlock()
	for _, lk := range l.liveLocks() {
		undo := lk.keys.undo.Load()
		switch {
		case lk.isHeld():
			held = append(held, lk.hold.Names...)
		case !l.has(lk):
		case undo != nil && undo.Decided():
			left.add(undo.Request.NotAfter, now)
		default: // its undo may be in submission
			lk.mu.Lock()
			if !lk.keys.resumed || !lk.lease.Acquiring() { // an unfinished Resume has written nothing
				left.add(now.Add(lk.keys.longest), now)
			}
			lk.mu.Unlock()
		}
	}
	if left.locks == 0 || !now.Before(left.until) {
		return held, nil
	}
	expiry := left.until.Sub(now).Round(time.Millisecond)
	return held, fmt.Errorf("%w: locks: %d, within %v", ErrKeysLeft, left.locks, expiry)
}

// awaitUndos waits up to the grace period for undos. It returns false if one is still pending.
func (l *Locker) awaitUndos(grace time.Duration) bool {
	over, stop := timer.After(l.set.clock, grace)
	defer stop()
	return l.awaitEnds(slices.DeleteFunc(l.liveLocks(), (*Lock).isHeld), over)
}

// awaitUntil waits until an instant, or until one of the channels is closed.
func (l *Locker) awaitUntil(at clock.Instant, a, b <-chan struct{}) {
	var over <-chan struct{}
	if at != noDeadline {
		fired, stop := timer.After(l.set.clock, max(0, at.Sub(l.now())))
		defer stop()
		over = fired
	}
	select {
	case <-a:
	case <-b:
	case <-over:
	}
}

// nextChange returns a channel that is closed when a lock leaves l.locks or its undo is decided, and whether
// Close still waits for lk.
func (l *Locker) nextChange(lk *Lock) (change <-chan struct{}, awaited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed.Next(), !l.finishing && l.locks[lk.args.Token()] == lk
}

// noteChange wakes Close.
func (l *Locker) noteChange() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed.Wake()
}
