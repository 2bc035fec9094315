package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// maxNames bounds the names of one lock. Each name adds to a script that blocks its server.
const maxNames = 1024

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
	return l.acquire(ctx, &request{names: []string{name}, ttl: ttl}, opts)
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
	return l.acquire(ctx, &request{names: []string{name}, ttl: ttl, singleAttempt: true}, opts)
}

// AcquireAll acquires several names as one lock: each node grants all of them or none. The order of
// the names does not matter, and sets that overlap cannot deadlock. A name may be given only once.
// There are 1 to 1024 names. If a node is a Redis Cluster, all names must be in one hash slot.
// Otherwise AcquireAll is like Acquire.
func (l *Locker) AcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, &request{names: slices.Sorted(slices.Values(names)), ttl: ttl}, opts)
}

// TryAcquireAll is like AcquireAll but does not wait for a holder: see TryAcquire.
func (l *Locker) TryAcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, &request{names: slices.Sorted(slices.Values(names)), ttl: ttl, singleAttempt: true}, opts)
}

// request holds the arguments and the state of one call of an Acquire method.
type request struct {
	names         []string // sorted
	ttl           time.Duration
	opts          lockSettings
	singleAttempt bool // TryAcquire
	failures      int  // attempts that failed
	waits         bool // it has waited, and is counted in Locker.waits; a hook may have its names
	boundToCaller bool // the lock's context ends with the caller's
	leads         bool // Lead
	locker        *Locker
	caller        context.Context // of the call, and the parent of the lock's context
	parent        heldContext     // of the caller's context; may be nil
	began         clock.Instant   // the call, if a trace or a log needs it

	// Used while the request waits:
	waiter    waiting.Waiter
	sightings verdict.Sightings
	patient   bool  // attempts wait for distant nodes in a tie: a key stays on a node, so not only contenders have split the votes
	last      error // error of the last attempt
}

func (l *Locker) acquire(ctx context.Context, w *request, opts []LockOption) (*Lock, error) {
	if l.isClosed() {
		return nil, closedError(w.names)
	}
	w.locker, w.caller, w.parent = l, ctx, heldWithin(ctx)
	var holder *Lock
	var all bool
	if w.parent != nil {
		holder, all = l.holderWithin(w.parent, w.names)
	}
	w.opts = gather(l.set.lockDefaults, opts)
	shares := holder != nil && w.opts.shared
	if shares {
		w.opts = gather(nil, opts)
	}
	if err := l.check(ctx, w); err != nil {
		return nil, err
	}
	switch {
	case shares && all:
		return holder.newShare(w)
	case shares:
		return nil, fmt.Errorf("%w: %s in part: a share needs a lock on all names", ErrAlreadyHeld, quoted(w.names))
	case holder != nil:
		return nil, fmt.Errorf("%w: %s is held by the lock of the context (WithShared)", ErrAlreadyHeld, quoted(w.names))
	}
	w.began = l.traceTime()
	lk, err := l.acquireWithin(ctx, w)
	err = l.nameClosed(err, w.names)
	attempts := w.failures
	if lk != nil {
		attempts++
	}
	w.trace(l.traces().Acquired, WaitEvent{Attempts: attempts, Err: err})
	return lk, err
}

func closedError(names []string) error { return fmt.Errorf("%w: %s", ErrClosed, quoted(names)) }

// nameClosed adds the names to the ErrClosed of this Locker. Another one's may be the cause of a context.
func (l *Locker) nameClosed(err error, names []string) error {
	if err == ErrClosed && l.isClosed() { //nolint:errorlint // an error around it has the names
		return closedError(names)
	}
	return err
}

// acquireWithin makes attempts within the bound of WithWait, if there is one. The context that ends
// the wait is no parent of the lock's.
func (l *Locker) acquireWithin(ctx context.Context, w *request) (*Lock, error) {
	switch {
	case w.singleAttempt, w.opts.waitBounded && w.opts.wait == 0:
		return l.try(ctx, w)
	case !w.opts.waitBounded:
		return l.acquireQueued(ctx, w)
	}
	wait, end := context.WithCancelCause(ctx)
	defer end(nil)
	timer := l.set.clock.AfterFunc(w.opts.wait, func() { end(fmt.Errorf("waited for %v", w.opts.wait)) })
	defer timer.Stop()
	return l.acquireQueued(wait, w)
}

// try makes attempts until one contender has the lock or the node timeout is over.
func (l *Locker) try(ctx context.Context, w *request) (*Lock, error) {
	start, timeout, pause := l.now(), l.set.timeout(w.ttl), l.set.backoff
	var before error // of the attempt before
	for now := start; ; now = l.now() {
		lk, seen, lost := l.attempt(ctx, w, now, nil)
		switch {
		case lost == nil:
			return lk, nil
		case before != nil && (seen.Why == verdict.Cut || ctx.Err() != nil): // it has seen less than the one before it
			return nil, l.waitError(w, endedBy(ctx), before)
		case seen.Why == verdict.Cut && ctx.Err() != nil: // if only Close cut it short, the caller gets the error of the attempt
			return nil, l.waitError(w, context.Cause(ctx), lost)
		case !isSplit(lost):
			return nil, lost
		}
		d := pause.Next(seen.Took)
		if !l.now().Add(d).Before(start.Add(timeout)) {
			if seen.Blocked > timeout/2 {
				lost = unsplit(lost)
			}
			return nil, lost
		}
		if err := l.waiting.Sleep(ctx, d); err != nil {
			return nil, l.waitError(w, err, lost)
		}
		before = lost
	}
}

// endedBy returns why a call was cut short: the context's cause, or else ErrClosed.
func endedBy(ctx context.Context) error {
	return cmp.Or(context.Cause(ctx), ErrClosed)
}

func isSplit(err error) bool {
	var e *QuorumError
	return errors.As(err, &e) && e.Split
}

// unsplit returns the error of the last attempt with Split cleared: the same keys have blocked the
// lock throughout, so a holder has them and the votes are not split.
func unsplit(err error) error {
	var e *QuorumError
	if !errors.As(err, &e) {
		return err
	}
	held := *e // a hook may be reading e
	held.Split = false
	return &held
}

// check rejects arguments that are out of bounds, before anything is sent.
func (l *Locker) check(ctx context.Context, w *request) error {
	if err := joinInvalid(l.checkSettings(w.ttl, &w.opts), l.checkNames(w.names)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &waitError{op: "acquire", names: w.names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	return nil
}

// errNoAttempt is the reason in the error of a call whose context ended before anything was sent.
var errNoAttempt = errors.New("no attempt was made")

func (l *Locker) checkNames(names []string) error {
	switch {
	case len(names) == 0:
		return invalid("no names")
	case len(names) > maxNames:
		return invalid("%d names, at most %d", len(names), maxNames)
	}
	for i, n := range names {
		if err := l.set.checkName(n); err != nil {
			return err
		}
		if i > 0 && n == names[i-1] {
			return invalid("the name %q is given twice", n)
		}
	}
	if l.clustered {
		return l.checkSlots(names)
	}
	return nil
}
