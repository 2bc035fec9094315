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
// Close may be called more than once, also concurrently. The first call that returns has closed the nodes.
func (l *Locker) Close(ctx context.Context) error {
	if l.closing == nil { // not made by New
		return ErrClosed
	}
	began, grace := l.now(), time.Duration(0)
	if ctx.Err() != nil {
		grace = l.readTimeout()
	}
	idle := l.beginClose()
	held := l.held()
	for _, lk := range held {
		if lk.opts.leads {
			lk.cancelContext(ErrClosed)
		}
	}
	for _, lk := range l.liveLocks() {
		lk.limitUndo()
	}
	l.stopWork(ctx, idle, held)
	var err error
	select {
	case <-idle:
		l.ends.Join(l.set.clock, l.readTimeout())
		l.undos.Join(l.set.clock, l.readTimeout())
	case <-ctx.Done():
		err = l.abandon(ctx, idle, grace)
		l.ends.Join(l.set.clock, max(0, began.Add(grace).Sub(l.now())))
		l.undos.Join(l.set.clock, max(0, began.Add(grace).Sub(l.now())))
	}
	l.waiting.Close()
	if left := l.leftoverError(); err == nil {
		err = left
	} else if left != nil {
		err = fmt.Errorf("%w; %w", err, left)
	}
	return oneline.Join(err, closeAll(l.nodes))
}

// beginClose marks the Locker as closed. It returns a channel that is closed when no lock is left.
func (l *Locker) beginClose() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.drained = make(chan struct{})
		close(l.closing)
		if len(l.locks) == 0 {
			close(l.drained)
		}
	}
	return l.drained
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

// stopWork tells the holders to stop, each in time before the deadline of ctx, and all when ctx ends. It
// returns when it has told all, or earlier if no lock is left.
func (l *Locker) stopWork(ctx context.Context, idle <-chan struct{}, held []*Lock) {
	began, left := l.now(), time.Duration(0)
	deadline, bounded := ctx.Deadline()
	if bounded {
		left = deadline.Sub(time.UnixMicro(l.set.wall()))
	}
	slices.SortFunc(held, func(a, b *Lock) int { return cmp.Compare(b.closeMargin(), a.closeMargin()) })
	for _, lk := range held {
		l.awaitClose(ctx, idle, bounded, began.Add(left-min(lk.closeMargin(), left/4)))
		lk.stopWork()
	}
}

// awaitClose waits until ctx ends, no lock is left or, if bounded, until an instant.
func (l *Locker) awaitClose(ctx context.Context, idle <-chan struct{}, bounded bool, until clock.Instant) {
	var over <-chan struct{}
	if bounded {
		d := until.Sub(l.now())
		if d <= 0 {
			return
		}
		fired, stop := timer.After(l.set.clock, d)
		defer stop()
		over = fired
	}
	select {
	case <-ctx.Done():
	case <-idle:
	case <-over:
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

// limitUndo bounds how long Close waits for an undo that was decided before Close began. For one
// that is decided later, onUndoDecided calls armUndoLimit. The node timeout bounds the decision.
func (lk *Lock) limitUndo() {
	if r, _ := lk.pendingUndo(); r != nil && r.Decided() {
		lk.armUndoLimit(r)
	}
}

// pendingUndo returns the undo of a registered lock, and whether the lock is registered. The undo is
// nil before it is submitted.
func (lk *Lock) pendingUndo() (undo *vote.Round, registered bool) {
	return lk.keys.undo.Load(), lk.l.has(lk)
}

// armUndoLimit sets the instant after which Close no longer waits for the nodes that have not
// answered the undo. The nodes themselves notice a failure only when a connection ends or a dial
// fails, and a frozen server keeps both open for seconds.
func (lk *Lock) armUndoLimit(undo *vote.Round) {
	lk.limitUndoAt(undo, min(undo.Request.NotAfter, undo.Start.Add(recovery(lk.l.nodes))))
}

func (lk *Lock) limitUndoAt(undo *vote.Round, at clock.Instant) {
	undo.SetTimer(at, (*undoTimer)(lk))
	if !lk.l.has(lk) { // the last answer may have come before SetTimer
		undo.ClearTimer()
	}
}

// isBlocked reports whether keys of an ended lock may block a quorum for other clients: the lock
// was held, and no quorum has confirmed its release.
func (lk *Lock) isBlocked(undo *vote.Round) bool {
	lk.mu.Lock()
	held := !lk.lease.Acquiring()
	lk.mu.Unlock()
	return held && !undo.Confirmed()
}

// undoTimer is the timer's view of a Lock whose undo Close waits for.
type undoTimer Lock

// Fire unregisters the lock. By then every reachable node had time to answer on a new connection.
// If the keys may block a quorum for other clients, Fire waits on until a quorum has confirmed the
// release or the keys have expired.
func (o *undoTimer) Fire(*timer.Timer) {
	lk, now := (*Lock)(o), o.l.now()
	undo, registered := lk.pendingUndo()
	if !registered {
		return // the last answer has arrived
	}
	if now.Before(undo.Request.NotAfter) && lk.isBlocked(undo) {
		lk.limitUndoAt(undo, min(undo.Request.NotAfter, now.Add(time.Second)))
		return
	}
	lk.l.mu.Lock()
	lk.l.leftover.add(undo.Request.NotAfter, now)
	lk.l.mu.Unlock()
	lk.l.remove(lk)
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

// leftoverError returns ErrKeysLeft with details, or nil if no key is left to expire. It counts
// locks that Close did not wait for, and those that are still being undone.
func (l *Locker) leftoverError() error {
	now := l.now()
	l.mu.Lock()
	left := l.leftover
	l.mu.Unlock()
	for _, lk := range l.liveLocks() {
		undo, registered := lk.pendingUndo()
		switch {
		case !registered || lk.isHeld():
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
		return nil
	}
	expiry := left.until.Sub(now).Round(time.Millisecond)
	return fmt.Errorf("%w: locks: %d, within %v", ErrKeysLeft, left.locks, expiry)
}

// abandon waits up to the grace period for undos, and names the locks that are still held. The remaining
// keys expire by their TTL.
func (l *Locker) abandon(ctx context.Context, idle <-chan struct{}, grace time.Duration) error {
	select {
	case <-idle: // both channels were ready
		return nil
	default:
	}
	var names []string
	for _, lk := range l.held() {
		names = append(names, lk.hold.Names...)
	}
	if l.awaitUndos(grace) && len(names) == 0 {
		return nil
	}
	if len(names) == 0 {
		return fmt.Errorf("redlock: close: %w", context.Cause(ctx))
	}
	slices.Sort(names)
	return fmt.Errorf("redlock: close: %w; locks still held until their TTL: %s", context.Cause(ctx), quoted(names))
}

// awaitUndos waits until no undo is pending. It returns false if that takes longer than within.
func (l *Locker) awaitUndos(within time.Duration) bool {
	over, stop := timer.After(l.set.clock, within)
	defer stop()
	for _, lk := range l.liveLocks() {
		if lk.isHeld() {
			continue
		}
		for {
			change, known := l.nextChange(lk)
			if !known {
				break
			}
			select {
			case <-change:
			case <-over:
				return false
			}
		}
	}
	return true
}

// nextChange returns a channel that is closed when the next lock leaves l.locks, and whether lk is
// still registered.
func (l *Locker) nextChange(lk *Lock) (change <-chan struct{}, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed.Next(), l.locks[lk.args.Token()] == lk
}
