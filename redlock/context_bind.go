package redlock

import (
	"context"
)

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
