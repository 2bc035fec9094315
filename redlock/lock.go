package redlock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// Lock is one acquisition of one or several names, or a share of one. It exists only
// while and after it was held: there is no lock object to acquire with again. It is
// safe for concurrent use.
//
// It ends by Release or Detach, when its validity is over (ErrLost), when a quorum
// of nodes says that it is not ours any more (ErrLost), or by WithMaxHold
// (ErrMaxHold); [Lock.Context] is cancelled with that cause. What has ended stays
// ended. No clock or network can tell a paused process in time: work that must
// never overlap needs a resource that checks.
//
// A share (WithShared) is a handle on the lease of another Lock: it costs no
// traffic, has a Release and a maximum hold of its own, and ends before the lock
// that it is a share of does.
type Lock struct {
	l             *Locker
	names         []string
	terms         wire.LockArgs
	opts          lockSettings
	handedOff     bool        // by the holder before, in this process
	confirmed     bool        // its fence took a second round trip
	remoteWaiters atomic.Bool // in other processes, as a node said when it was given back
	acquiredUnder *Lock       // whose context it was acquired with; may be nil
	shareOf       *Lock       // of which it is a share: root, or another share of it
	root          *Lock       // whose lease it shares; nil for a lease of its own

	ttl     time.Duration // as acquired; what auto-extension asks for
	fence   uint64        // does not change once it is held
	began   clock.Instant // of the acquisition: maximum and minimum hold count from it
	oneName [1]string

	// What talks to the nodes. While the lock is held mu guards both; before and after
	// nobody changes them, but for renewExchange, under mu.
	exchange *exchange // nil in a lock that is held for longer: see rest; another's, perhaps, once it was given back
	mayHold  []bool    // … by node: whether it may hold our keys; nil: all may

	alarm alarm.Alarm // the next instant at which settle has something to do

	// sending is held while commands of this token are submitted, so that an
	// extension can't be queued behind the release. It is locked before mu, and under mu
	// only tried: the timers' goroutine must not wait for it.
	sending sync.Mutex

	// mu guards all below. Under it nobody is called but the alarms, which call
	// nobody back under a lock of theirs.
	mu               sync.Mutex
	phase            phase
	lost             bool  // a quorum says that it is not ours: to be ended
	extensionStopped bool  // nothing extends it any more, though it is held
	extendQueued     bool  // for its turn to be extended
	retries          uint8 // extensions that failed since one took effect, as far as it matters how many
	boundToCaller    bool  // its context ends with the one given, in Do
	resumed          bool  // another handle acquired it
	releasing        bool  // Release was called
	released         bool  // … and has its result

	cause        error          // why the hold ended
	endedAt      clock.Instant  // when its validity was over, at the latest
	until        clock.Instant  // the validity's end
	longest      time.Duration  // the longest TTL that any command gave the keys
	inFlight     []*round       // extensions and repairs
	inFlightWG   sync.WaitGroup // those without a decision
	toRepair     []bool         // nodes to repair; nil for none
	repaired     []bool         // nodes that were, and so may hold our keys; changed under sending, too
	lastExtended clock.Instant  // when an extension last took effect
	nextExtendAt clock.Instant  // of the auto-extension
	nextShrink   clock.Instant  // when to give up what is not needed for holding; never: it was
	progress     clock.Instant  // of the latest Progress
	shares       map[*Lock]struct{}

	parentCtx context.Context // what the lock's context is derived from, on first use
	ctx       *leaseContext
	cancel    context.CancelCauseFunc
	ctxCause  error // why the context ended; set before or with cause

	result error         // of the first Release
	others chan struct{} // closed with the result; made by a second Release that has to wait
}

// phase is where a Lock's life stands.
type phase uint8

const (
	attempting phase = iota
	held
	ended
)

// Names are the names that the lock holds, sorted, in a slice of the caller's own.
func (lk *Lock) Names() []string { return slices.Clone(lk.names) }

// Token is the value of the lock's keys. A client that knows it and can reach a quorum of
// the nodes can extend and release the lock: for logs and databases use ID.
func (lk *Lock) Token() string { return lk.terms.Token }

// Remaining is how long the lock is still valid, by a clock that counts suspended
// time, with drift and a margin for late timers taken off (WithDrift). Zero or less: stop now. It needs no network.
func (lk *Lock) Remaining() time.Duration {
	left := lk.remaining(lk.l.now())
	if left > 0 && lk.shareOf != nil {
		left = min(left, lk.shareOf.Remaining())
	}
	return left
}

// remaining is what remains of the handle's own time.
func (lk *Lock) remaining(now clock.Instant) time.Duration {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.phase != held || lk.lost {
		return min(lk.endedAt.Sub(now), 0)
	}
	return lk.endNowLocked().Sub(now)
}

// Progress says that the work is alive; see WithProgress. Without that it does
// nothing.
func (lk *Lock) Progress() {
	if lk.root != nil {
		lk.root.Progress()
		return
	}
	if lk.opts.progress == 0 {
		return
	}
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.progress = now
	if lk.nextExtendAt == noDeadline {
		lk.nextExtendAt = now
		lk.scheduleLocked()
	}
}

// isHeld reports whether the lock is held, by the clock and not by a timer.
func (lk *Lock) isHeld() bool {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.phase == held
}

// overlaps reports whether any of the names is the lock's, and whether all are.
func (lk *Lock) overlaps(names []string) (some, all bool) {
	n := 0
	for _, name := range names {
		if slices.Contains(lk.names, name) {
			n++
		}
	}
	return n > 0, n == len(names)
}
