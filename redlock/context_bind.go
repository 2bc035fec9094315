package redlock

import (
	"context"
	"sync"
)

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
	own := lk.ctx
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

// boundContext is a context of the caller that also ends with a lock.
type boundContext struct {
	context.Context
	lock   *Lock
	outer  heldContext // of the caller's context; may be nil
	cancel context.CancelCauseFunc
}

// applyEnd ends the context if the lock's context has ended.
func (c *boundContext) applyEnd() {
	if ctx := c.lock.Context(); ctx.Err() != nil {
		c.cancel(context.Cause(ctx))
	}
}

func (c *boundContext) applyDue() {
	c.applyEnd()
	if c.outer != nil {
		c.outer.applyDue()
	}
}

func (c *boundContext) eachLock(visit func(lk *Lock) bool) bool {
	if c.outer == c.lock.family.acquiredUnder { // visited through the lock: a chain must not double with each context
		return c.lock.eachLock(visit)
	}
	return c.lock.eachLock(visit) || c.outer != nil && c.outer.eachLock(visit)
}

// Err returns nil while the lock is valid and the caller's context has not ended.
func (c *boundContext) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	c.applyDue()
	return c.Context.Err()
}

// Value returns the context itself for heldKey, and otherwise the values of the caller's context.
func (c *boundContext) Value(key any) any {
	if key == (heldKey{}) {
		return c
	}
	if c.Context.Err() == nil {
		c.applyDue() // context.Cause may read the cause through Value without a call of Err
	}
	return c.Context.Value(key)
}

// String describes the context without the token.
func (c *boundContext) String() string { return "context bound to " + c.lock.String() }

// GoString is String.
func (c *boundContext) GoString() string { return c.String() }

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

// end ends all contexts. Two goroutines may call it at the same time. The one that ends the lock goes on to
// undo the keys, so the second one waits here until the first has ended all contexts.
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
