package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/timer"
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
	l      *Locker
	hold   waiting.Hold // the names, and the start of the acquisition
	terms  command.LockArgs
	opts   holdOptions
	fence  int64 // the fencing token, constant once the lock is held; 0 without fencing
	family family
	timer  timer.Timer // for the next instant at which applyDue has something to do

	// sending is held while commands of this token are submitted, so that no extension is queued
	// behind the release. It is locked before mu. Under mu only TryLock is allowed, because the
	// timers' goroutine must not wait for sending.
	sending sync.Mutex

	// mu guards all fields below, and family.shares. Under it only the timers are called, which call
	// nothing back while they hold a lock.
	mu        sync.Mutex
	lease     lease.Lease
	cause     error // why the hold ended
	keys      keyState
	extending extending
	release   releaseCall
	ctx       lockContext
}

// Names returns a copy of the names that the lock holds, sorted.
func (lk *Lock) Names() []string { return slices.Clone(lk.hold.Names) }

// Token returns the value of the lock's keys. A client that knows it and can reach a quorum of the
// nodes can extend and release the lock: use ID for logs and databases.
func (lk *Lock) Token() string { return lk.terms.Token() }

// Remaining returns how long the lock is still valid. Drift and a margin for late timers are
// subtracted (WithDrift), and the clock counts suspended time. If the result is 0 or less, the work
// must stop. Remaining needs no network.
func (lk *Lock) Remaining() time.Duration {
	left := lk.remaining(lk.l.now())
	if left > 0 && lk.family.shareOf != nil {
		left = min(left, lk.family.shareOf.Remaining())
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
	if lk.family.shareOf != nil {
		lk.root().Progress()
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
