package redlock

import (
	"maps"
	"slices"
)

// family relates a lock to other locks. All fields but shares are constant once the lock is held.
type family struct {
	acquiredUnder heldContext // of the context that was given; may be nil
	shares        map[*Lock]struct{}
}

// add adds a share.
func (f *family) add(s *Lock) {
	if f.shares == nil {
		f.shares = make(map[*Lock]struct{})
	}
	f.shares[s] = struct{}{}
}

// list returns a copy of the shares.
func (f *family) list() []*Lock { return slices.Collect(maps.Keys(f.shares)) }

// newShare makes a share of lk, or of the lock that lk is a share of. The share ends with lk. The
// options of WithDefaults do not apply: some are not possible for a share.
func newShare(a *acquisition, lk *Lock) (*Lock, error) {
	root := lk.keeper().lock()
	switch {
	case a.ttl > root.opts.ttl:
		return nil, invalid("share with a TTL of %v of a lock with %v", a.ttl, root.opts.ttl)
	case lk.l.set.fencing && root.fence == 0:
		return nil, invalid("share with fencing of a lock that was resumed without a fence")
	case a.opts.minHold > 0 || a.opts.stopMargin > 0 || a.opts.progress > 0:
		return nil, invalid("WithMinHold, WithStopMargin and WithProgress cannot be given for a share")
	}
	s := a.newLock(root.Token())
	s.outer, s.opts.ttl, s.fence = &lk.hold, root.opts.ttl, root.fence
	s.lease.Terms.AutoExtend = false // the lock is extended, and the share with it
	now := lk.l.now()
	s.holder.Began = now
	lk.mu.Lock()
	held := lk.lease.Held()
	if held {
		lk.family.add(s)
	}
	lk.mu.Unlock()
	if !held {
		return nil, lk.endError()
	}
	s.markHeld(noDeadline, now)
	if !lk.isHeld() {
		s.end(lk.endCause(), keepKeys) // the lock ended while the share was made
		return nil, lk.endError()
	}
	return s, nil
}
