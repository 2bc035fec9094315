package redlock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lockContext is the context of a lock, made on first use.
type lockContext struct {
	own   *leaseContext // nil before the first use
	cause error         // why the context ended; set no later than Lock.cause
}

// endLocked returns the cause of the end, which is the first one.
func (c *lockContext) endLocked(cause error) error {
	if c.cause == nil {
		c.cause = cause
	}
	return c.cause
}

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
// time. After the machine wakes up, Done is closed within 100 ms, or within 1 s if 100,000 locks
// end at once. On a busy machine Done may be closed after the end, because timers fire late.
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
	if lk.ctx.own == nil {
		lk.ctx.own = made
	}
	own, cause := lk.ctx.own, lk.ctx.cause
	lk.mu.Unlock()
	switch {
	case own != made: // another goroutine was faster
		cancel(nil)
	case cause != nil:
		own.end(cause)
	}
	return own
}

// contextCause returns why the lock's context has ended, or nil. It does not know of a caller's context.
func (lk *Lock) contextCause() error {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.ctx.cause
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

// Bind returns a context that ends with ctx or with the lock, whichever ends first. Its cause is that
// of the one that ended. It has the values and the deadline of ctx, and belongs to the lock, as for
// FromContext. It is for a caller of Acquire whose work already has a context. The caller calls the
// CancelFunc when the work is done, and need not if ctx ends.
//
// It ends with the lock as Lock.Context does: before the lock's keys are undone. Err and context.Cause
// report the end also right after a suspend. The context may be bound to further locks. Their names are
// then held as well: an acquisition with it returns ErrAlreadyHeld for each of them.
func (lk *Lock) Bind(ctx context.Context) (context.Context, context.CancelFunc) {
	link, unlink := context.WithCancel(ctx) // the end of the lock must call nothing of ctx: see contextWithin
	inner, cancel := context.WithCancelCause(link)
	c := &boundContext{Context: inner, lock: lk, outer: heldWithin(ctx), cancel: cancel}
	lk.Context() // makes it
	lk.mu.Lock()
	own := lk.ctx.own
	lk.mu.Unlock()
	own.bound.add(c, own)
	stop := context.AfterFunc(link, func() { own.bound.remove(c) })
	c.applyEnd() // in Do the lock's context may have ended with that of the caller
	return c, func() {
		stop()
		own.bound.remove(c)
		cancel(nil)
		unlink()
	}
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

// holderWithin returns the lock that a context belongs to and that holds some of the names, or nil. all
// reports whether it holds them all. A caller that waits for such a lock would wait forever. Granting the
// name silently would let two goroutines under one lock both enter (docs/dev/hazards.md H109).
func holderWithin(l *Locker, c heldContext, names []string) (holder *Lock, all bool) {
	c.eachLock(func(lk *Lock) bool {
		if lk.l != l {
			return false
		}
		some, every := overlap(lk.holder.Names, names)
		if !some || !lk.isHeld() {
			return false
		}
		holder, all = lk, every
		return true
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

// boundContexts are the contexts that are bound to a lock's context. There may be very many: each step
// but end costs the same for any number.
type boundContexts struct {
	mu    sync.Mutex // guards what follows
	open  map[*boundContext]struct{}
	cause error         // why they end; nil before
	ended chan struct{} // closed when all have ended; nil if there was none
}

// add adds a context, and ends it if the others have ended.
func (b *boundContexts) add(c *boundContext, own *leaseContext) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause != nil {
		c.cancel(b.cause)
		return
	}
	if b.open == nil {
		b.open = make(map[*boundContext]struct{})
		// In Do, the lock's context may also end with that of the caller, without the lock.
		context.AfterFunc(own.Context, func() { b.end(context.Cause(own.Context)) })
	}
	b.open[c] = struct{}{}
}

func (b *boundContexts) remove(c *boundContext) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}

// end ends all contexts. Two goroutines may end a lock at the same time. Each goes on to undo the keys,
// so the second one waits here until the first has ended all contexts.
func (b *boundContexts) end(cause error) {
	b.mu.Lock()
	first := b.cause == nil
	if first {
		b.cause = cause
		if b.open != nil {
			b.ended = make(chan struct{})
		}
	}
	all, ended := b.open, b.ended
	b.open = nil
	b.mu.Unlock()
	switch {
	case ended == nil:
	case !first:
		<-ended
	default:
		for c := range all {
			c.cancel(cause)
		}
		close(ended)
	}
}
