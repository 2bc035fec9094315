package redlock

import (
	"context"
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
	a := &acquisition{l: l, names: []string{name}, ttl: ttl}
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
	a := &acquisition{l: l, names: []string{name}, ttl: ttl, singleAttempt: true}
	return a.acquire(ctx, opts)
}

// AcquireAll acquires several names as one lock: each node grants all of them or none. The order of
// the names does not matter, and sets that overlap cannot deadlock. A name may be given only once.
// There are 1 to 1024 names. If a node is a Redis Cluster, all names must be in one hash slot.
// Otherwise AcquireAll is like Acquire.
func (l *Locker) AcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	a := &acquisition{l: l, names: slices.Sorted(slices.Values(names)), ttl: ttl}
	return a.acquire(ctx, opts)
}

// TryAcquireAll is like AcquireAll but does not wait for a holder: see TryAcquire.
func (l *Locker) TryAcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	a := &acquisition{l: l, names: slices.Sorted(slices.Values(names)), ttl: ttl, singleAttempt: true}
	return a.acquire(ctx, opts)
}
