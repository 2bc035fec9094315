package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Do acquires the lock on a name, runs fn while it is held and extended, and releases
// it when fn has returned. fn's context is the lock's: it ends with its cause when
// the lock does (ErrLost, ErrMaxHold, ErrClosed), and also when ctx does. fn should
// return then; Do does not return before it has.
//
// Do returns the error of the acquisition, as in Acquire, or the error of fn. If the lock ended
// before fn returned, the error also matches ErrLost or ErrMaxHold, even if fn returned nil.
// Under a share (WithShared) it also matches ErrReleased or ErrDetached if the shared lock was
// released or detached. Do returns no error if the Locker was closed meanwhile or if the
// release could not be confirmed: the work ran under the lock, and leftover keys expire. If
// fn panics, Do releases the lock and the panic continues.
func (l *Locker) Do(ctx context.Context, name string, ttl time.Duration,
	fn func(ctx context.Context, lock *Lock) error, opts ...LockOption,
) error {
	w := newRequest(name, ttl)
	w.boundToCaller = true
	k, err := l.acquire(ctx, w, append([]LockOption{WithAutoExtend()}, opts...))
	if err != nil {
		return err
	}
	link, unlink := context.WithCancel(ctx) // between the user's context and the lock's: see contextWithin
	defer unlink()
	defer func() { _ = k.Release(ctx) }() // for a panic; a second Release does nothing
	err = fn(k.contextWithin(link), k)
	outlived := k.root != nil && !k.root.isHeld()
	switch end := k.Release(ctx); {
	case errors.Is(end, ErrLost) || errors.Is(end, ErrMaxHold):
		return oneline.Join(end, err)
	case outlived:
		return oneline.Join(k.endError(), err)
	}
	return err
}
