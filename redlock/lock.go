package redlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// Lock is one acquisition of one or several names, or a share of one. A Lock is not reusable: to
// acquire again, call the Locker. Its methods are safe for concurrent use.
//
// A Lock ends by Release or Detach, when its validity is over (ErrLost), when a quorum of nodes
// reports that the token no longer holds the names (ErrLost), or by WithMaxHold (ErrMaxHold).
// [Lock.Context] is cancelled with that cause. A Lock that has ended never becomes valid again. A
// paused process notices the end only when it runs again. Work that must never overlap needs a
// resource that checks fencing tokens (WithFencing).
//
// A share (WithShared) is a handle on the lease of another Lock. It sends no commands, and has a
// Release and a maximum hold of its own. It ends no later than the Lock that it shares.
type Lock struct {
	l             *Locker
	hold          waiting.Hold
	terms         command.LockArgs
	minHold       time.Duration
	minValidity   time.Duration // of the acquisition, and of Resume
	asyncRelease  bool
	confirmed     bool        // the fence took a second round trip
	remoteWaiters atomic.Bool // a node reported waiters in other processes at the release
	acquiredUnder *Lock       // the lock whose context was given; may be nil
	shareOf       *Lock       // the Lock that was shared: root, or another share of it
	root          *Lock       // the Lock that owns the lease; nil if this one does

	ttl     time.Duration // as acquired; automatic extensions ask for it
	fence   int64         // constant once the lock is held
	oneName [1]string

	// The acquisition. While the lock is held mu guards both fields; before and after that they are
	// constant. acquire is nil after Resume, for a share, and for a lock that is held for long (see
	// dropAcquireLocked). After the release it may belong to another lock.
	acquire *vote.Round
	mayHold []bool // by node: whether it may hold our keys; nil: all nodes may

	alarm alarm.Alarm // for the next instant at which applyDue has something to do

	// sending is held while commands of this token are submitted, so that no extension is queued
	// behind the release. It is locked before mu. Under mu only TryLock is allowed, because the
	// timers' goroutine must not wait for sending.
	sending sync.Mutex

	// mu guards all fields below. Under it only the alarms are called, which call nothing back
	// while they hold a lock.
	mu            sync.Mutex
	lease         lease.Lease
	boundToCaller bool // the lock's context ends with the caller's; for Do
	resumed       bool // another handle acquired the lock
	releasing     bool // Release was called
	released      bool // Release has a result

	cause      error          // why the hold ended
	longest    time.Duration  // longest TTL that any command set
	inFlight   []*vote.Round  // extensions and repairs
	inFlightWG sync.WaitGroup // rounds in inFlight without a decision
	repaired   []bool         // nodes that were repaired; changed under both sending and mu
	nextShrink clock.Instant  // when to drop the acquisition; noDeadline: it was dropped
	undo       *vote.Round    // the release, or another undo; nil before that, constant afterwards
	shares     map[*Lock]struct{}

	parentCtx context.Context // the lock's context is derived from it on first use
	ctx       *leaseContext
	cancel    context.CancelCauseFunc
	ctxCause  error // why the context ended; set no later than cause

	result error         // of the first Release
	others chan struct{} // closed with the result; made by a second Release that has to wait
}

// Names returns a copy of the names that the lock holds, sorted.
func (lk *Lock) Names() []string { return slices.Clone(lk.hold.Names) }

// Token returns the value of the lock's keys. A client that knows it and can reach a quorum of the
// nodes can extend and release the lock: use ID for logs and databases.
func (lk *Lock) Token() string { return lk.terms.Token }

// Remaining returns how long the lock is still valid. Drift and a margin for late timers are
// subtracted (WithDrift), and the clock counts suspended time. If the result is 0 or less, the work
// must stop. Remaining needs no network.
func (lk *Lock) Remaining() time.Duration {
	left := lk.remaining(lk.l.now())
	if left > 0 && lk.shareOf != nil {
		left = min(left, lk.shareOf.Remaining())
	}
	return left
}

// remaining returns Remaining without regard to the lock that a share belongs to.
func (lk *Lock) remaining(now clock.Instant) time.Duration {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.lease.Remaining(now)
}

// Progress reports that the work is making progress (WithProgress). Without that option it does
// nothing.
func (lk *Lock) Progress() {
	if lk.root != nil {
		lk.root.Progress()
		return
	}
	if lk.lease.Terms.Progress == 0 {
		return
	}
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.lease.MadeProgress(now) {
		lk.scheduleLocked()
	}
}

// isHeld reports whether the lock is held. It reads the clock and does not depend on timers.
func (lk *Lock) isHeld() bool {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.lease.Held()
}

// overlaps reports whether the lock holds some of the names, and whether it holds all of them.
func (lk *Lock) overlaps(names []string) (some, all bool) {
	n := 0
	for _, name := range names {
		if slices.Contains(lk.hold.Names, name) {
			n++
		}
	}
	return n > 0, n == len(names)
}
