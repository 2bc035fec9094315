package redlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/alarm"
)

// Close ends the Locker as http.Server.Shutdown ends a server. New acquisitions and
// those that wait fail with ErrClosed. The contexts of held locks end with cause
// ErrClosed; then Close waits, until ctx is done, for their holders to release them
// and for what is being undone; auto-extension goes on that long. A node that does not
// answer is waited for until the keys have died by their TTL, and no longer. What is still
// held when ctx is done is not taken away from under the work: it is not extended any more
// and dies by its TTL, and the error, which matches the cause of ctx, names it. At last it
// closes the nodes that Open made; what was not undone on them by then dies by its TTL, too,
// while nodes that New was given go on with it.
// It may be called more than once, also at the same time.
func (l *Locker) Close(ctx context.Context) error {
	idle := l.beginClose()
	for _, k := range l.held() {
		k.stop(ErrClosed)
	}
	for _, k := range l.leaseList() {
		k.boundUndo()
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

// leaseList lists the leases that are under way, held, or being undone.
func (l *Locker) leaseList() []*Lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.leases))
}

// held lists the leases that are held now.
func (l *Locker) held() []*Lock {
	return slices.DeleteFunc(l.leaseList(), func(k *Lock) bool { return !k.live() })
}

// boundUndo bounds how long Close waits for an undo that was decided before. One that is
// decided later bounds itself (decided): until then it waits for no more than the node timeout.
func (k *Lock) boundUndo() {
	if r := k.undoing(); r != nil && r.decided.Load() {
		k.outlast(r)
	}
}

// outlast has the lease leave the books when the undo is of no use any more, whoever has
// not answered it by then: the node sees to that instant only when its connection ends or
// a dial fails, and a frozen one keeps both for seconds.
func (k *Lock) outlast(undo *round) {
	undo.keep()
	k.l.alarms.Set(&undo.alarm, undo.req.NotAfter, time.Second, (*outlasted)(k))
	if !k.l.knows(k) { // the last answer may have come before that
		k.l.alarms.Clear(&undo.alarm)
	}
}

// outlasted is a lease as that alarm sees it.
type outlasted Lock

// Ring is called by the Locker's alarms.
func (o *outlasted) Ring(*alarm.Alarm) { o.l.forget((*Lock)(o)) }

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
		left := "is still being undone on some nodes"
		if l.owned != nil {
			left = "was not undone on all nodes, and stands there until its TTL"
		}
		return fmt.Errorf("redlock: close: %w; what was released %s", context.Cause(ctx), left)
	}
	slices.Sort(names)
	return fmt.Errorf("redlock: close: %w; still held, until their TTL: %s", context.Cause(ctx), quoteAll(names))
}
