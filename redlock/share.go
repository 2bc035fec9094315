package redlock

import (
	"context"
	"fmt"
)

// ownedAlready looks whether the caller's context comes from a lock that holds what
// it asks for. Waiting would never end then, and letting it pass silently would let
// two goroutines under one lock both enter (docs/hazards.md H109).
func (l *Locker) ownedAlready(ctx context.Context, w *wish) (share *Lock, err error) {
	w.outer = lockOf(ctx)
	for k := w.outer; k != nil; k = k.outer {
		if k.l != l {
			continue
		}
		some, all := k.holds(w.names)
		switch {
		case !some || !k.live():
		case !w.opts.shared:
			return nil, fmt.Errorf("%w: %s, by the lock whose context was given (WithShared)", ErrAlreadyHeld, quoteAll(w.names))
		case !all:
			return nil, fmt.Errorf("%w: %s in part: a share needs a lock on all of them", ErrAlreadyHeld, quoteAll(w.names))
		default:
			return k.share(ctx, w)
		}
	}
	return nil, nil
}

// share makes a handle on the lease of k, or of what k is a share of. It ends with k.
func (k *Lock) share(ctx context.Context, w *wish) (*Lock, error) {
	root := k
	if k.root != nil {
		root = k.root
	}
	switch {
	case w.ttl > root.ttl:
		return nil, invalid("a share for %v of a lock for %v", w.ttl, root.ttl)
	case w.opts.minValidity > k.Remaining():
		return nil, fmt.Errorf("%w: a share with %v of validity", ErrTooLate, w.opts.minValidity)
	case k.l.set.fencing && root.fence == 0:
		return nil, invalid("a share with fencing of a lock that was resumed without")
	case w.opts.minHold > 0 || w.opts.stopMargin > 0 || w.opts.progress > 0:
		return nil, invalid("WithMinHold, WithStopMargin and WithProgress are the lock's, not its share's")
	}
	s := k.l.newLock(ctx, w)
	s.of, s.root, s.terms, s.ttl, s.fence = k, root, root.terms, root.ttl, root.fence
	s.talk = nil // it never talks to a node
	now := k.l.now()
	s.began = now
	if !k.addShare(s) {
		return nil, k.endError()
	}
	s.hold(never, now)
	if !k.live() {
		s.finish(ErrLost, leaveKeys) // it ended while the share began
		return nil, k.endError()
	}
	k.mu.Lock()
	stopped := k.ctxCause
	k.mu.Unlock()
	if stopped != nil {
		s.stop(stopped)
	}
	return s, nil
}

func (k *Lock) addShare(s *Lock) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.phase != held {
		return false
	}
	if k.shares == nil {
		k.shares = make(map[*Lock]struct{})
	}
	k.shares[s] = struct{}{}
	return true
}

func (k *Lock) dropShare(s *Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.shares, s)
}

// shareList copies the shares. Called under mu.
func (k *Lock) shareList() []*Lock {
	if len(k.shares) == 0 {
		return nil
	}
	list := make([]*Lock, 0, len(k.shares))
	for s := range k.shares {
		list = append(list, s)
	}
	return list
}
