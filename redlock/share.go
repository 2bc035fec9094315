package redlock

import (
	"context"
	"fmt"
)

// checkReentrant checks whether the caller's context belongs to a lock that holds a requested name.
// Waiting would then never end. Granting the name silently would let two goroutines under one lock
// both enter (docs/dev/hazards.md H109).
func (l *Locker) checkReentrant(ctx context.Context, w *request) (share *Lock, err error) {
	w.parent = lockOf(ctx)
	for k := w.parent; k != nil; k = k.acquiredUnder {
		if k.l != l {
			continue
		}
		some, all := k.overlaps(w.names)
		switch {
		case !some || !k.isHeld():
		case !w.opts.shared:
			return nil, fmt.Errorf("%w: %s is held by the lock of the context (WithShared)", ErrAlreadyHeld, quoted(w.names))
		case !all:
			return nil, fmt.Errorf("%w: %s in part: a share needs a lock on all names", ErrAlreadyHeld, quoted(w.names))
		default:
			return k.newShare(ctx, w)
		}
	}
	return nil, nil
}

// newShare makes a share of lk, or of the lock that lk is a share of. The share ends with lk.
func (lk *Lock) newShare(ctx context.Context, w *request) (*Lock, error) {
	root := lk
	if lk.root != nil {
		root = lk.root
	}
	switch {
	case w.ttl > root.ttl:
		return nil, invalid("share with a TTL of %v of a lock with %v", w.ttl, root.ttl)
	case w.opts.minValidity > lk.Remaining():
		return nil, fmt.Errorf("%w: a share with %v of validity", ErrTooLate, w.opts.minValidity)
	case lk.l.set.fencing && root.fence == 0:
		return nil, invalid("share with fencing of a lock that was resumed without a fence")
	case w.opts.minHold > 0 || w.opts.stopMargin > 0 || w.opts.progress > 0:
		return nil, invalid("WithMinHold, WithStopMargin and WithProgress cannot be given for a share")
	}
	s := lk.l.newLock(ctx, w)
	s.shareOf, s.root, s.terms, s.ttl, s.fence = lk, root, root.terms, root.ttl, root.fence
	s.lease.Terms.AutoExtend = false // the lock is extended, and the share with it
	now := lk.l.now()
	s.hold.Began = now
	if !lk.addShare(s) {
		return nil, lk.endError()
	}
	s.markHeld(noDeadline, now)
	if !lk.isHeld() {
		s.end(ErrLost, keepKeys) // the lock ended while the share was made
		return nil, lk.endError()
	}
	lk.mu.Lock()
	stopped := lk.ctxCause
	lk.mu.Unlock()
	if stopped != nil {
		s.cancelContext(stopped)
	}
	return s, nil
}

func (lk *Lock) addShare(s *Lock) bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if !lk.lease.Held() {
		return false
	}
	if lk.shares == nil {
		lk.shares = make(map[*Lock]struct{})
	}
	lk.shares[s] = struct{}{}
	return true
}

func (lk *Lock) removeShare(s *Lock) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	delete(lk.shares, s)
}

// shareListLocked returns a copy of the shares.
func (lk *Lock) shareListLocked() []*Lock {
	if len(lk.shares) == 0 {
		return nil
	}
	list := make([]*Lock, 0, len(lk.shares))
	for s := range lk.shares {
		list = append(list, s)
	}
	return list
}
