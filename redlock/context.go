package redlock

import (
	"context"
	"slices"
	"time"
)

// leaseContext is a lock's context: a cancel context whose Err and Value first call applyDue. It
// therefore reports the end of the lock after a suspend, even if no timer has run yet. Done and the
// identity of the cancel context are inherited, so child contexts end with it and need no
// goroutine.
type leaseContext struct {
	context.Context
	lock   *Lock
	cancel context.CancelCauseFunc
	bound  boundContexts
}

// end ends the context and those that are bound to it. When it returns they have ended.
func (c *leaseContext) end(cause error) {
	c.cancel(cause)
	c.bound.end(cause)
}

func (c *leaseContext) applyDue() {
	c.lock.applyDue()
	if c.lock.opts.boundToCaller {
		c.lock.applyDueOutside()
	}
}

// applyDueOutside applies what is due to the locks whose end ends the context of the acquisition.
func (lk *Lock) applyDueOutside() {
	if outer := lk.family.acquiredUnder; outer != nil {
		outer.applyDue()
	}
}

func (c *leaseContext) eachLock(visit func(lk *Lock) bool) bool { return c.lock.eachLock(visit) }

func (lk *Lock) eachLock(visit func(lk *Lock) bool) bool {
	outer := lk.family.acquiredUnder
	return visit(lk) || outer != nil && outer.eachLock(visit)
}

// Err returns nil while the lock is valid.
func (c *leaseContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.applyDue()
	return c.Context.Err()
}

// Value returns the context itself for heldKey, and otherwise the values of the acquiring context.
func (c *leaseContext) Value(key any) any {
	if key == (heldKey{}) {
		return c
	}
	c.applyDue()
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

// Context returns a context that is cancelled when the lock ends. Its cause (context.Cause) is a
// *LostError, which matches ErrLost or ErrMaxHold, or it is ErrReleased, ErrDetached or ErrClosed. With
// WithStopMargin it ends earlier. [Lock.Err] returns the same reason as it is known later.
// It ends by the Locker's own clock and does not depend on the network. It has the values of the
// context of the acquisition, but not its cancellation, and reports no deadline.
//
// A suspended machine runs no timers. Err, Remaining and Check read a clock that counts suspended
// time. After the machine wakes up, the end of a lock is noticed within 100 ms. If 100,000 locks end
// at once, Done is closed within 1 s. It is closed at the end of the validity, and on a busy machine
// later than the validity allows for, because timers fire late.
//
// Context is safe for concurrent use and returns the same context each time.
func (lk *Lock) Context() context.Context {
	lk.applyDue()
	lk.mu.Lock()
	ctx := lk.ctx
	lk.mu.Unlock()
	if ctx != nil {
		return ctx
	}
	return lk.contextWithin(context.WithoutCancel(lk.caller))
}

// contextWithin makes the lock's context unless it exists. The parent must be a context of package
// context itself. Otherwise ending the child calls the user's parent context, and the goroutine
// that ends the lock would wait for the user's code.
func (lk *Lock) contextWithin(parent context.Context) context.Context {
	lk.applyDue()
	inner, cancel := context.WithCancelCause(parent)
	made := &leaseContext{Context: inner, lock: lk, cancel: cancel}
	lk.mu.Lock()
	if lk.ctx == nil {
		lk.ctx = made
	}
	own, cause := lk.ctx, lk.stopped
	lk.mu.Unlock()
	switch {
	case own != made: // another goroutine was faster
		cancel(nil)
	case cause != nil:
		own.end(cause)
	}
	return own
}

// FromContext returns the lock whose context ctx is, or derives from: the innermost one if there are
// several. It returns false if ctx belongs to no lock. The lock may have ended.
func FromContext(ctx context.Context) (*Lock, bool) {
	var innermost *Lock
	if c := heldWithin(ctx); c != nil {
		c.eachLock(func(lk *Lock) bool {
			innermost = lk
			return true
		})
	}
	return innermost, innermost != nil
}

// heldKey is the context key of the innermost heldContext that a context is, or derives from.
type heldKey struct{}

// heldContext is a context that belongs to a lock. Its methods call no code of the user.
type heldContext interface {
	// applyDue applies what is due to the locks whose end ends the context. After a suspend their timers
	// have not run yet, and a context that derives from this one does not read the clock.
	applyDue()
	// eachLock calls visit for the locks that the context belongs to, and for those under which these
	// were acquired, the innermost first. It ends when visit returns true, and returns true then.
	eachLock(visit func(lk *Lock) (done bool)) bool
}

// heldWithin returns the innermost heldContext of ctx, or nil.
func heldWithin(ctx context.Context) heldContext {
	c, _ := ctx.Value(heldKey{}).(heldContext)
	return c
}

// holderWithin returns the innermost lock that a context belongs to and that holds all of the names, or else one that
// holds some, or nil. all reports whether it holds them all. A caller that waits for such a lock would wait forever.
// Granting the name silently would let two goroutines under one lock both enter (docs/dev/hazards.md H109).
func holderWithin(l *core, c heldContext, names []string) (holder *Lock, all bool) {
	c.eachLock(func(lk *Lock) bool {
		if lk.l != l {
			return false
		}
		some, every := overlap(lk.holder.Names, names)
		if !some || !lk.isHeld() {
			return false
		}
		if holder == nil || every {
			holder, all = lk, every
		}
		return every
	})
	return holder, all
}

// overlap reports whether some of the names are held, and whether all of them are.
func overlap(held, names []string) (some, all bool) {
	n := 0
	for _, name := range names {
		if slices.Contains(held, name) {
			n++
		}
	}
	return n > 0, n == len(names)
}
