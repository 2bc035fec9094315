package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// noDeadline is an instant that never comes, such as the end of a share's own validity.
const noDeadline = lease.Never

// hold is one lock at the nodes, from the first command with its token to the last. A share has a hold without keys,
// whose lease has no end but that of WithMaxHold.
type hold struct {
	l      *core
	holder waiting.Hold    // the names, and the start of the acquisition; its owner is the Lock
	caller context.Context // of the acquisition, or of Resume: for hooks, and for the values of the lock's context
	outer  *hold           // the hold that a share shares; nil if this one has the keys
	args   command.LockArgs
	opts   holdOptions
	fence  int64       // the fencing token, constant once the lock is held; 0 without fencing
	keys   writtenKeys // which says what guards its fields
	timer  timer.Timer // ends the vote of the acquisition; from markHeld on it fires when applyDue has something to do

	// mu guards all fields below, those of the Lock, and what writtenKeys says. It is held while an extension or
	// a repair is checked and submitted, so none follows the release, which is submitted after the lock has
	// ended under mu. No user code and no event of a round runs under it. docs/dev/architecture.md has
	// the order of mutexes.
	mu        sync.Mutex
	lease     lease.Lease // its phase and its end are constant once it has ended
	stopped   error       // why the lock's context ended; set no later than cause, and constant from then on
	cause     error       // why the hold ended; constant from then on
	extending extending
}

// holdOptions are the options that a Lock keeps besides those of its lease. They are constant, but for minHold,
// which undoUnused clears.
type holdOptions struct {
	ttl           time.Duration // as acquired; automatic extensions ask for it
	minHold       time.Duration
	asyncRelease  bool
	boundToCaller bool // the lock's context ends with the caller's; for Do and Lead
	leads         bool // of Lead: Close ends the context at once
}

// minHoldLeft returns what remains of the minimum hold of a lock that began then, rounded up to whole milliseconds.
func (o *holdOptions) minHoldLeft(began, now clock.Instant) time.Duration {
	if left := began.Add(o.minHold).Sub(now); o.minHold > 0 && left > 0 {
		return max(MinTTL, (left + time.Millisecond - 1).Truncate(time.Millisecond))
	}
	return 0
}

// subject describes the hold for its events.
func (h *hold) subject() subject {
	return subject{h.caller, h.holder.Names, h.args.Token(), h.holder.Began, h.isShare()}
}

// isShare reports whether it is the hold of a share.
func (h *hold) isShare() bool { return h.outer != nil }

// keeper returns the hold that has the keys: itself, but for a share.
func (h *hold) keeper() *hold {
	for h.outer != nil {
		h = h.outer
	}
	return h
}

// wasHeld reports whether an acquisition or a hold that is over was a hold. That is constant, and needs no mutex.
func (h *hold) wasHeld() bool { return !h.lease.Acquiring() }

// remaining returns Remaining without regard to the lock that a share belongs to.
func (h *hold) remaining(now clock.Instant) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.Remaining(now)
}

// markHeld turns the acquisition into a held lock.
func (h *hold) markHeld(until, now clock.Instant) {
	h.l.reporter.started(h.subject(), now, until.Sub(now))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease.Begin(h.holder.Began, until, now)
	h.keys.dropAcquire()
	h.scheduleLocked()
}

// leaseTimer is the timer's view of a hold. It keeps Fire out of a Lock's method set.
type leaseTimer hold

// Fire is called by the Locker's timers.
func (t *leaseTimer) Fire(*timer.Timer) { lockOf((*hold)(t)).onTimer() }

// scheduleLocked sets the timer to the next instant at which something is due, if the lock is held.
func (h *hold) scheduleLocked() {
	at := h.lease.Next()
	if at == noDeadline {
		h.l.timers.Clear(&h.timer)
		return
	}
	h.l.timers.Set(&h.timer, at, (*leaseTimer)(h))
}

// supported returns until when all keys hold the token, counted from start and less drift. A key
// that never expires is not a lease.
func (h *hold) supported(start clock.Instant, keys []command.KeyState) (until clock.Instant, ours bool) {
	until = noDeadline
	for _, k := range keys {
		if k.Value != h.args.Token() || k.TTL < 0 {
			return 0, false
		}
		until = min(until, quorum.Until(start, min(k.TTL, h.l.set.maxTTL), h.l.set.drift))
	}
	return until, len(keys) > 0
}

// checked records that a quorum keeps the lock until an instant, as the answers to r show.
func (h *hold) checked(r *vote.Round, until clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease.Checked(r.Start, until, h.l.now())
	h.scheduleLocked()
	if h.lease.Ends() == until {
		h.l.group.NoteDecided(r, until, 0)
	}
}

// unregister removes a round that is complete.
func (h *hold) unregister(r *vote.Round) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.extending.complete(r)
}

// markLostLocked marks a hold as lost because a quorum refused its token, as the votes show. It ends when the timer or
// a question about it applies what is due.
func (h *hold) markLostLocked(votes []Vote) {
	if h.lease.MarkLost(h.l.now()) {
		h.extending.inTrouble().votes = votes
	}
}

// stopLocked records that the lock's context ends by cause, unless it has ended, and returns why it did.
func (h *hold) stopLocked(cause error) error {
	if h.stopped == nil {
		h.stopped = cause
	}
	return h.stopped
}

// contextCause returns why the lock's context has ended, or nil. It does not know of a caller's context.
func (h *hold) contextCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopped
}

// stopReasonLocked returns why a held lock is no longer extended.
func (h *hold) stopReasonLocked() error {
	cause := h.stopped
	switch {
	case cause != nil:
	case h.lease.EndsByMaxHold(): // its context is about to end
		cause = ErrMaxHold
	default:
		cause = ErrLost
	}
	return fmt.Errorf("%w; no extension after the end of its context", h.named(cause))
}

// endCause returns why a handle has ended, or nil.
func (h *hold) endCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

// endError returns why a handle has ended, as the error of a later call.
func (h *hold) endError() error { return h.named(h.endCause()) }

// named returns the reason of an end as the error of a call: with the lock's names, and as of now.
func (h *hold) named(cause error) error {
	if lost := lossIn(cause); lost != nil && lost.end != nil {
		return h.lostBy(lost.end)
	}
	return fmt.Errorf("%w: %s", cause, quoted(h.holder.Names))
}

// lostBy returns the error about an end as it is now, with the names of this handle.
func (h *hold) lostBy(end *lockEnd) *LostError {
	now := h.l.now()
	return &LostError{
		Names: h.holder.Names, Reason: end.reason, Votes: end.votes, Paused: end.paused, Confirmed: end.wall,
		For: max(0, now.Sub(end.over)), Overlap: max(0, now.Sub(end.confirmed)), Holder: end.holder.Load(), end: end,
	}
}
