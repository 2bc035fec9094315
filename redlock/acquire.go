package redlock

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Acquire acquires the lock on a name for ttl, and does not extend it without WithAutoExtend. It waits
// until ctx ends, or for WithWait, for a holder to release the lock and for unreachable nodes. Waiters
// of one Locker queue in order of arrival, and only the first sends requests to the nodes.
//
// A name has 1 to 512 bytes of any value. ttl is in whole milliseconds, from MinTTL to WithMaxTTL.
// Its validity after drift must be longer than the node timeout. ttl is how long the lock outlives
// a holder that crashed, not how long the work takes: see WithAutoExtend.
//
// If ctx ends first, the error matches context.Cause(ctx) and also the reason of the last attempt:
// ErrHeld, ErrNoQuorum, ErrQuarantined or ErrTooLate. Other errors match ErrInvalid if an argument
// is out of bounds, and ErrAlreadyHeld if ctx belongs to a lock that holds the name. They match
// ErrForeignKey if the key holds a value that is not a lock, ErrGuardMismatch if other clients use
// another restart guard, or ErrClosed. If Acquire returns an error the caller holds nothing, and the
// library deletes in the background what it has written.
func (l *Locker) Acquire(ctx context.Context, name string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	a := &acquisition{call: call{l: &l.core, names: []string{name}, ttl: ttl}}
	return a.acquire(ctx, opts)
}

// TryAcquire is like Acquire but does not wait for a holder and does not queue. If it does not get
// the lock, the error matches ErrHeld, ErrNoQuorum, ErrQuarantined or ErrTooLate. Other errors are
// those of Acquire.
//
// TryAcquire makes one attempt, unless contenders split the votes. It then tries again until one of
// them has the lock, and starts no attempt after the node timeout. The error then matches ErrHeld,
// and QuorumError.Split is set unless the same keys blocked the lock throughout.
//
// TryAcquire takes at most three times the node timeout: the last attempt, and the query for the
// holder or the confirmation of a fencing token, may each take one node timeout. If another client
// clearly holds the lock it takes two round trips.
func (l *Locker) TryAcquire(ctx context.Context, name string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	a := &acquisition{call: call{l: &l.core, names: []string{name}, ttl: ttl}, singleAttempt: true}
	return a.acquire(ctx, opts)
}

// AcquireAll acquires several names as one lock: each node grants all of them or none. The order of
// the names does not matter, and sets that overlap cannot deadlock. A name may be given only once.
// There are 1 to 1024 names. If a node is a Redis Cluster, all names must be in one hash slot.
// Otherwise AcquireAll is like Acquire.
func (l *Locker) AcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	a := &acquisition{call: call{l: &l.core, names: slices.Sorted(slices.Values(names)), ttl: ttl}}
	return a.acquire(ctx, opts)
}

// TryAcquireAll is like AcquireAll but does not wait for a holder: see TryAcquire.
func (l *Locker) TryAcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	a := &acquisition{call: call{l: &l.core, names: slices.Sorted(slices.Values(names)), ttl: ttl}, singleAttempt: true}
	return a.acquire(ctx, opts)
}

// Resume makes a handle for a lock that another handle, possibly in another process, gave up by
// Detach. Its validity is what a quorum of nodes still grants. Resume takes at most the node
// timeout. If it returns an error, nothing was changed on the nodes.
//
// Its errors match:
//
//   - ErrLost if the nodes report that the token does not hold the names
//   - ErrNoQuorum if too few nodes answered
//   - ErrQuarantined if too few nodes vote because of quarantines
//   - ErrTooLate if too little validity is left
//   - ErrAlreadyHeld if this Locker has a handle for the claim or is undoing it
//   - ErrInvalid if the claim is invalid or an option is out of bounds
//   - ErrClosed, or the cause of ctx
//
// A claim whose token does not have the form of this library's tokens is invalid. Otherwise a
// forged claim could extend or delete any expiring key whose value is known.
//
// The Locker must have the nodes and the key prefix of the Locker that acquired the lock. The
// options are those of an acquisition, except WithMinHold and WithShared.
func (l *Locker) Resume(ctx context.Context, claim Claim, opts ...LockOption) (*Lock, error) {
	a := &acquisition{call: call{l: &l.core, names: slices.Sorted(slices.Values(claim.Names)), ttl: claim.TTL, caller: ctx, parent: heldWithin(ctx)}}
	if l.isClosed() {
		return nil, closedError(a.names)
	}
	if err := claim.check(l.set.wall()); err != nil {
		return nil, err
	}
	if given := gather(nil, opts); given.minHold > 0 || given.shared {
		return nil, invalid("Resume accepts neither WithMinHold nor WithShared")
	}
	a.opts = gather(l.set.lockDefaults, opts)
	a.opts.minHold, a.opts.shared = 0, false // of WithDefaults
	if err := a.check(ctx); err != nil {
		return nil, withOp("resume", err)
	}
	lk := a.newLock(claim.Token)
	if lk.fence = claim.Fence; lk.fence != 0 {
		lk.args.SetCounters(l.set.clustered)
	}
	lk.keys.resumed = true
	if err := l.registry.add(&lk.hold); err != nil {
		return nil, fmt.Errorf("%w: %v", err, claim)
	}
	held := false
	defer func() {
		if !held { // also if the caller's context panics
			l.registry.remove(&lk.hold)
		}
	}()
	if err := resume(ctx, &lk.hold); err != nil {
		return nil, err
	}
	held = true
	if l.isClosed() { // resumed while Close listed the held locks
		_, _ = lk.Detach()
		return nil, closedError(a.names)
	}
	return lk, nil
}
