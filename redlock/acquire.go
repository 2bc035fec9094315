package redlock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/internal/fifo"
)

// maxNames bounds how many names one lock takes: each adds to a script that keeps
// its server from all other work.
const maxNames = 1024

// Acquire takes the lock on a name for ttl, and waits until ctx is done for whoever
// holds it, and for nodes that can't be reached. Of the contenders of one process
// only the first in line asks the nodes.
//
// A name has 1 to 512 bytes of any kind. ttl is in whole milliseconds, from MinTTL to
// WithMaxTTL, and must be worth more than the node timeout after drift. It is how long the
// lock outlives a holder that died, not how long the work takes: see WithAutoExtend.
//
// An error matches context.Cause(ctx) when the context ended, together with the
// reason until then (ErrHeld, ErrNoQuorum, ErrQuarantined or ErrTooLate); ErrInvalid
// for arguments out of bounds; ErrAlreadyHeld when ctx comes from a lock that holds the
// name; ErrForeignKey when the key holds something that is no lock; ErrClosed. With an
// error nothing is held, and what an attempt may have written is being undone.
func (l *Locker) Acquire(ctx context.Context, name string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, newRequest(name, ttl), opts)
}

// TryAcquire is Acquire without waiting for a holder: it does not wait in line, and matches ErrHeld,
// ErrNoQuorum, ErrQuarantined or ErrTooLate when it fails. One attempt decides, unless contenders split
// the votes: then it attempts again until one of them has the lock, but begins no attempt when the node
// timeout is over. Then the error matches ErrHeld, and QuorumError.Split is set unless the same keys blocked
// it throughout.
//
// It takes at most three times the node timeout: the last attempt, and the query for the holder or the
// confirmation of a fencing token, may take a node timeout each. A lock that is plainly held takes two
// round trips.
func (l *Locker) TryAcquire(ctx context.Context, name string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	w := newRequest(name, ttl)
	w.singleAttempt = true
	return l.acquire(ctx, w, opts)
}

// AcquireAll takes several names as one lock: on every node all of them or none. The
// order in which they are given does not matter; none may be given twice. Sets that
// overlap can't wait for each other in a circle. One name at least, and at most 1024; where a
// node is a Redis Cluster, of one hash slot. All else is as in Acquire.
func (l *Locker) AcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, &request{names: slices.Sorted(slices.Values(names)), ttl: ttl}, opts)
}

// TryAcquireAll is AcquireAll without waiting for a holder: see TryAcquire.
func (l *Locker) TryAcquireAll(ctx context.Context, names []string, ttl time.Duration, opts ...LockOption) (*Lock, error) {
	return l.acquire(ctx, &request{names: slices.Sorted(slices.Values(names)), ttl: ttl, singleAttempt: true}, opts)
}

// request is what a caller of the Acquire methods asks for.
type request struct {
	names         []string // sorted
	oneName       [1]string
	ttl           time.Duration
	opts          lockSettings
	singleAttempt bool  // it does not wait for a holder
	failures      int   // attempts that failed
	boundToCaller bool  // the lock's context ends with the acquiring one
	parent        *Lock // whose context the caller gave
	ticket        fifo.Ticket

	waiter waiter // once it is at the head of its line
}

// requestPool are to be used again: most are granted at the first attempt.
var requestPool = sync.Pool{New: func() any { return new(request) }}

func newRequest(name string, ttl time.Duration) *request {
	w := requestPool.Get().(*request)
	w.ttl = ttl
	w.oneName[0] = name
	w.names = w.oneName[:]
	return w
}

// recycle gives the wish up for use by others, unless somebody may still know it: it waited,
// or heard something, and then its alarm may be about to ring.
func (req *request) recycle() {
	if req.failures > 0 || req.waiter.wake != nil || req.waiter.announcedBy != nil {
		return
	}
	*req = request{}
	requestPool.Put(req)
}

func (l *Locker) acquire(ctx context.Context, w *request, opts []LockOption) (*Lock, error) {
	if err := l.check(ctx, w, opts); err != nil {
		return nil, err
	}
	if share, err := l.checkReentrant(ctx, w); share != nil || err != nil {
		return share, err
	}
	var k *Lock
	var err error
	if !w.singleAttempt {
		k, err = l.acquireQueued(ctx, w)
	} else {
		k, err = l.try(ctx, w)
	}
	if err == nil {
		w.recycle()
	}
	return k, err
}

// try attempts until it is clear who has the lock, or until the node timeout is over.
func (l *Locker) try(ctx context.Context, w *request) (*Lock, error) {
	start := l.now()
	k, seen, lost := l.attempt(ctx, w, start, nil)
	if seen.cut && ctx.Err() != nil { // Close alone leaves it at what the attempt has found
		return nil, l.waitError(w, context.Cause(ctx), lost)
	}
	if lost == nil || !isSplit(lost) {
		return k, lost
	}
	timeout := l.set.timeout(w.ttl)
	v, until := &w.waiter, start.Add(timeout)
	v.l, v.ctx, v.done = l, ctx, ctx.Done()
	pause := backoff{min: l.set.minBackoff, max: l.set.maxBackoff}
	for {
		d := pause.next(seen.took)
		if !l.now().Add(d).Before(until) {
			return nil, unsplit(lost, seen.blocked > timeout/2)
		}
		if _, err := v.sleep(d, nil); err != nil {
			return nil, l.waitError(w, err, lost)
		}
		before := lost
		k, seen, lost = l.attempt(ctx, w, l.now(), nil)
		switch {
		case lost != nil && (seen.cut || ctx.Err() != nil): // an attempt that was cut short knows less than those before it
			return nil, l.waitError(w, endedBy(ctx), before)
		case lost == nil || !isSplit(lost):
			return k, lost
		}
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

// unsplit returns the error of the last attempt. Where the same keys have blocked throughout, they are a
// holder's and the votes are not split.
func unsplit(err error, blocked bool) error {
	var e *QuorumError
	if !blocked || !errors.As(err, &e) {
		return err
	}
	held := *e // a hook may be reading e
	held.Split = false
	return &held
}

// check refuses what is out of bounds before anything is sent.
func (l *Locker) check(ctx context.Context, w *request, opts []LockOption) (err error) {
	if l.isClosed() {
		return ErrClosed
	}
	w.opts, err = l.lockSettings(w.ttl, opts)
	if err := joinInvalid(err, l.checkNames(w.names)); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &waitError{op: "acquire", names: w.names, cause: context.Cause(ctx), last: errNoAttempt}
	}
	return nil
}

// errNoAttempt is why an Acquire had no success when its context was done from the
// start, or while others of the process went first.
var errNoAttempt = errors.New("not tried")

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
