package redlock

import (
	"maps"
	"slices"
)

// family relates a lock to other locks. All fields but shares are constant once the lock is held.
type family struct {
	acquiredUnder heldContext // of the context that was given; may be nil
	shareOf       *Lock       // the Lock that was shared; nil if this one owns the lease
	shares        map[*Lock]struct{}
}

// root returns the Lock that owns the lease: lk, or the one that lk is a share of.
func (lk *Lock) root() *Lock {
	for lk.family.shareOf != nil {
		lk = lk.family.shareOf
	}
	return lk
}

// holderWithin returns the lock that a context belongs to and that holds some of the names, or nil. all
// reports whether it holds them all. A caller that waits for such a lock would wait forever. Granting the
// name silently would let two goroutines under one lock both enter (docs/dev/hazards.md H109).
func (l *Locker) holderWithin(c heldContext, names []string) (holder *Lock, all bool) {
	c.eachLock(func(lk *Lock) bool {
		if lk.l != l {
			return false
		}
		some, every := lk.overlaps(names)
		if !some || !lk.isHeld() {
			return false
		}
		holder, all = lk, every
		return true
	})
	return holder, all
}

// newShare makes a share of lk, or of the lock that lk is a share of. The share ends with lk. The
// options of WithDefaults do not apply: some are not possible for a share.
func (lk *Lock) newShare(w *acquisition) (*Lock, error) {
	root := lk.root()
	switch {
	case w.ttl > root.opts.ttl:
		return nil, invalid("share with a TTL of %v of a lock with %v", w.ttl, root.opts.ttl)
	case lk.l.set.fencing && root.fence == 0:
		return nil, invalid("share with fencing of a lock that was resumed without a fence")
	case w.opts.minHold > 0 || w.opts.stopMargin > 0 || w.opts.progress > 0:
		return nil, invalid("WithMinHold, WithStopMargin and WithProgress cannot be given for a share")
	}
	s := w.newLock(root.Token())
	s.family.shareOf, s.opts.ttl, s.fence = lk, root.opts.ttl, root.fence
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
	return s, nil
}

func (lk *Lock) addShare(s *Lock) bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if !lk.lease.Held() {
		return false
	}
	if lk.family.shares == nil {
		lk.family.shares = make(map[*Lock]struct{})
	}
	lk.family.shares[s] = struct{}{}
	return true
}

func (lk *Lock) removeShare(s *Lock) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	delete(lk.family.shares, s)
}

// shareListLocked returns a copy of the shares.
func (lk *Lock) shareListLocked() []*Lock { return slices.Collect(maps.Keys(lk.family.shares)) }
