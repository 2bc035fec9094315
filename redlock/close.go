package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Close ends the Locker as http.Server.Shutdown ends a server. New acquisitions and
// those that wait fail with ErrClosed. The contexts of held locks end with cause
// ErrClosed; then Close waits, until ctx is done, for their holders to release them
// and for what is being undone; auto-extension goes on that long. What is still held
// then is not taken away from under the work: it is not extended any more and dies
// by its TTL, and the error, which matches the cause of ctx, names it. At last it closes
// the nodes that Open made.
// It may be called more than once, also at the same time.
func (l *Locker) Close(ctx context.Context) error {
	idle := l.beginClose()
	for _, k := range l.held() {
		k.stop(ErrClosed)
	}
	var err error
	select {
	case <-idle:
	case <-ctx.Done():
		err = l.abandon(ctx, idle)
	}
	l.waiters.close()
	l.fleet.End()
	return errors.Join(err, closeAll(l.owned))
}

// beginClose returns a channel that is closed when no lease is left.
func (l *Locker) beginClose() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.idle = make(chan struct{})
		close(l.closing)
		if len(l.leases) == 0 {
			close(l.idle)
		}
	}
	return l.idle
}

// held lists the leases that are held now.
func (l *Locker) held() []*Lock {
	l.mu.Lock()
	leases := make([]*Lock, 0, len(l.leases))
	for _, k := range l.leases {
		leases = append(leases, k)
	}
	l.mu.Unlock()
	return slices.DeleteFunc(leases, func(k *Lock) bool { return !k.live() })
}

// abandon leaves what is still held to its TTL.
func (l *Locker) abandon(ctx context.Context, idle <-chan struct{}) error {
	select {
	case <-idle: // as well
		return nil
	default:
	}
	var names []string
	for _, k := range l.held() {
		k.mu.Lock()
		k.noExtend = true
		k.arm()
		k.mu.Unlock()
		names = append(names, k.names...)
	}
	if len(names) == 0 {
		return fmt.Errorf("redlock: close: %w; what was released is still being undone on some nodes", context.Cause(ctx))
	}
	slices.Sort(names)
	return fmt.Errorf("redlock: close: %w; still held, until their TTL: %s", context.Cause(ctx), quoteAll(names))
}
