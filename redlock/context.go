package redlock

import (
	"context"
	"time"
)

// heldKey finds the innermost lock that a context belongs to.
type heldKey struct{}

// leaseContext is a lock's context: a cancel context, whose Err and Value first
// let the lock settle by its own clock. So a context asked after a suspend says
// no, though no timer has run yet; and because Done and the cancel context's
// identity pass through, children cost no goroutine and end with it.
type leaseContext struct {
	context.Context
	lock *Lock
}

// applyDue lets the lock settle, and those whose contexts end this one.
func (c *leaseContext) applyDue() {
	k := c.lock
	for k.applyDue(); k.boundToCaller && k.acquiredUnder != nil; k.applyDue() {
		k = k.acquiredUnder
	}
}

// Err is nil while the lock may be used.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.applyDue()
	return c.Context.Err()
}

// Value finds the lock itself, and what the acquiring context carried.
func (c *leaseContext) Value(key any) any {
	c.applyDue()
	if key == (heldKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// Deadline reports none: an extension moves the end, and a child with an earlier
// deadline would have dropped its own timer for one that has become wrong.
func (c *leaseContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// String describes the context without the token. Package fmt would otherwise print the lock's fields, which change.
func (c *leaseContext) String() string { return "context of " + c.lock.String() }

// GoString is String.
func (c *leaseContext) GoString() string { return c.String() }

// Context is cancelled when the lock ends, with the cause ErrLost, ErrReleased,
// ErrDetached, ErrMaxHold or ErrClosed (context.Cause), and WithStopMargin earlier.
// It ends by the Locker's own clock, in any state of the network. It carries the
// values of the context that the lock was acquired with, not its cancellation, and
// reports no deadline.
//
// A suspended machine runs no timers. Err, Remaining and Check read a clock that counts
// suspended time. Done is closed within the smaller of 250 ms and a tenth of the TTL after
// the machine wakes up, or within 1 s if 100,000 locks end at once. On a busy machine Done may
// be closed after the end, because timers fire late.
//
// It is safe for concurrent use and returns the same context each time.
func (lk *Lock) Context() context.Context {
	lk.applyDue()
	lk.mu.Lock()
	ctx := lk.ctx
	lk.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	return lk.contextWithin(context.WithoutCancel(lk.parentCtx))
}

// contextWithin makes the lock's context, unless there is one. Parent is a context of
// package context itself: ending the child calls a parent of the user's, and then the
// goroutine that ends a lock would wait for the user's code.
func (lk *Lock) contextWithin(parent context.Context) context.Context {
	lk.applyDue()
	inner, cancel := context.WithCancelCause(parent)
	return lk.adopt(&leaseContext{Context: inner, lock: lk}, cancel)
}

// adopt makes ctx the lock's context, unless somebody else was first.
func (lk *Lock) adopt(ctx *leaseContext, cancel context.CancelCauseFunc) context.Context {
	lk.mu.Lock()
	first := lk.ctx == nil
	if first {
		lk.ctx, lk.cancel = ctx, cancel
	}
	mine, cause := lk.ctx, lk.ctxCause
	lk.mu.Unlock()
	switch {
	case !first:
		cancel(nil)
	case cause != nil:
		cancel(cause)
	}
	return mine
}

// lockOf is the innermost lock whose context ctx is derived from, or nil.
func lockOf(ctx context.Context) *Lock {
	k, _ := ctx.Value(heldKey{}).(*Lock)
	return k
}
