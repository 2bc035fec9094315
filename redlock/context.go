package redlock

import (
	"context"
	"time"
)

// heldKey is the context key of the innermost lock that a context belongs to.
type heldKey struct{}

// lockContext is the context of a lock, made on first use.
type lockContext struct {
	parent context.Context // of the acquisition; the lock's context has its values
	own    *leaseContext   // nil before the first use
	cancel context.CancelCauseFunc
	cause  error // why the context ended; set no later than Lock.cause
}

// leaseContext is a lock's context: a cancel context whose Err and Value first call applyDue. It
// therefore reports the end of the lock after a suspend, even if no timer has run yet. Done and the
// identity of the cancel context are inherited, so child contexts end with it and need no
// goroutine.
type leaseContext struct {
	context.Context
	lock *Lock
}

// applyDue applies what is due to the lock, and to the locks whose contexts end this one.
func (c *leaseContext) applyDue() {
	k := c.lock
	for k.applyDue(); k.family.boundToCaller && k.family.acquiredUnder != nil; k.applyDue() {
		k = k.family.acquiredUnder
	}
}

// Err returns nil while the lock is valid.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.applyDue()
	return c.Context.Err()
}

// Value returns the lock itself for heldKey, and otherwise the values of the acquiring context.
func (c *leaseContext) Value(key any) any {
	c.applyDue()
	if key == (heldKey{}) {
		return c.lock
	}
	return c.Context.Value(key)
}

// Deadline reports no deadline, because an extension moves the end. A child with an earlier
// deadline of its own would have dropped its timer.
func (c *leaseContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// String describes the context without the token. Package fmt would otherwise print the lock's fields,
// which change.
func (c *leaseContext) String() string { return "context of " + c.lock.String() }

// GoString is String.
func (c *leaseContext) GoString() string { return c.String() }

// Context returns a context that is cancelled when the lock ends. Its cause (context.Cause) is
// ErrLost, ErrReleased, ErrDetached, ErrMaxHold or ErrClosed. With WithStopMargin it ends earlier.
// It ends by the Locker's own clock and does not depend on the network. It has the values of the
// context of the acquisition, but not its cancellation, and reports no deadline.
//
// A suspended machine runs no timers. Err, Remaining and Check read a clock that counts suspended
// time. After the machine wakes up, Done is closed within the smaller of 250 ms and a tenth of the
// TTL, or within 1 s if 100,000 locks end at once. On a busy machine Done may be closed after the
// end, because timers fire late.
//
// Context is safe for concurrent use and returns the same context each time.
func (lk *Lock) Context() context.Context {
	lk.applyDue()
	lk.mu.Lock()
	ctx := lk.ctx.own
	lk.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	return lk.contextWithin(context.WithoutCancel(lk.ctx.parent))
}

// contextWithin makes the lock's context unless it exists. The parent must be a context of package
// context itself. Otherwise ending the child calls the user's parent context, and the goroutine
// that ends the lock would wait for the user's code.
func (lk *Lock) contextWithin(parent context.Context) context.Context {
	lk.applyDue()
	inner, cancel := context.WithCancelCause(parent)
	return lk.adopt(&leaseContext{Context: inner, lock: lk}, cancel)
}

// adopt makes ctx the lock's context, unless another goroutine has set one. It returns the lock's
// context.
func (lk *Lock) adopt(ctx *leaseContext, cancel context.CancelCauseFunc) context.Context {
	lk.mu.Lock()
	first := lk.ctx.own == nil
	if first {
		lk.ctx.own, lk.ctx.cancel = ctx, cancel
	}
	mine, cause := lk.ctx.own, lk.ctx.cause
	lk.mu.Unlock()
	switch {
	case !first:
		cancel(nil)
	case cause != nil:
		cancel(cause)
	}
	return mine
}

// Bind returns a context that ends with ctx or with the lock, whichever ends first. Its cause is that
// of the one that ended. It has the values and the deadline of ctx, and belongs to the lock, as for
// FromContext. It is for a caller of Acquire whose work already has a context. The caller calls the
// CancelFunc when the work is done.
//
// Err and context.Cause report the end of the lock as Lock.Context does, also right after a suspend.
func (lk *Lock) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	bound := &boundContext{Context: inner, lock: lk, cancel: cancel}
	stop := context.AfterFunc(lk.Context(), bound.applyEnd)
	return bound, func() {
		stop()
		cancel(nil)
	}
}

// boundContext is a context of the caller that also ends with a lock.
type boundContext struct {
	context.Context
	lock   *Lock
	cancel context.CancelCauseFunc
}

// applyEnd ends the context if the lock's context has ended.
func (c *boundContext) applyEnd() {
	if ctx := c.lock.Context(); ctx.Err() != nil {
		c.cancel(context.Cause(ctx))
	}
}

// Err returns nil while the lock is valid and the caller's context has not ended.
func (c *boundContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.applyEnd()
	return c.Context.Err()
}

// Value returns the lock itself for heldKey, and otherwise the values of the caller's context.
func (c *boundContext) Value(key any) any {
	if key == (heldKey{}) {
		return c.lock
	}
	if c.Context.Err() == nil {
		c.applyEnd() // context.Cause may read the cause through Value without a call of Err
	}
	return c.Context.Value(key)
}

// String describes the context without the token.
func (c *boundContext) String() string { return "context bound to " + c.lock.String() }

// GoString is String.
func (c *boundContext) GoString() string { return c.String() }

// FromContext returns the lock whose context ctx is, or derives from: the innermost one if there are
// several. It returns false if ctx belongs to no lock. The lock may have ended.
func FromContext(ctx context.Context) (*Lock, bool) {
	lk := lockOf(ctx)
	return lk, lk != nil
}

// lockOf returns the innermost lock that ctx belongs to, or nil.
func lockOf(ctx context.Context) *Lock {
	k, _ := ctx.Value(heldKey{}).(*Lock)
	return k
}
