package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Do acquires the lock on a name, calls fn while the lock is held and extended, and releases the
// lock when fn returns. The context of fn is the lock's. It ends when ctx ends, or with the lock's
// cause when the lock ends (ErrLost, ErrMaxHold, ErrClosed). fn should then return, because Do
// waits for it.
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
	// contextWithin needs a parent that is a context of package context.
	link, unlink := context.WithCancel(ctx)
	defer unlink()
	defer func() { _ = k.Release(ctx) }() // for a panic; a second Release does nothing
	err = fn(k.contextWithin(link), k)
	outlived := k.family.root != nil && !k.family.root.isHeld()
	switch end := k.Release(ctx); {
	case errors.Is(end, ErrLost) || errors.Is(end, ErrMaxHold):
		return oneline.Join(end, err)
	case outlived:
		return oneline.Join(k.endError(), err)
	}
	return err
}
