package redlock

import (
	"context"
	"errors"
	"time"
)

// Do acquires the lock on a name, runs fn while it is held and extended, and releases
// it when fn has returned. fn's context is the lock's: it ends with its cause when
// the lock does (ErrLost, ErrMaxHold, ErrClosed), and also when ctx does. fn should
// return then; Do does not return before it has.
//
// The error is that of the acquisition, as in Acquire; or fn's own, joined with
// ErrLost or ErrMaxHold when the lock ended before fn returned, also when fn returned
// nil. Under a share (WithShared) it is joined with ErrReleased or ErrDetached too, when
// somebody ended the lock that was shared. Neither a Close meanwhile is an error of Do, nor
// that a release could not be confirmed: the work was done while the lock was held, and
// what is left of it expires. When fn panics the lock is released and the panic goes on.
func (l *Locker) Do(ctx context.Context, name string, ttl time.Duration,
	fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	w := wishFor(name, ttl)
	w.bound = true
	k, err := l.acquire(ctx, w, append([]LockOption{WithAutoExtend()}, opts...))
	if err != nil {
		return err
	}
	defer func() { _ = k.Release(ctx) }() // for a panic; a second Release does nothing
	err = fn(k.Context(), k)              //nolint:contextcheck // derived from ctx: see bound
	outlived := k.root != nil && !k.root.live()
	switch end := k.Release(ctx); {
	case errors.Is(end, ErrLost) || errors.Is(end, ErrMaxHold):
		return errors.Join(end, err)
	case outlived:
		return errors.Join(k.endError(), err)
	}
	return err
}
