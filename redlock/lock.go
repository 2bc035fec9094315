package redlock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// Lock is one acquisition of one or several names, or a share of one. A Lock is not reusable: to
// acquire again, call the Locker. Its methods are safe for concurrent use.
//
// A Lock ends by Release or Detach, when its validity is over (ErrLost), when a quorum of nodes
// reports that the token no longer holds the names (ErrLost), or by WithMaxHold (ErrMaxHold).
// [Lock.Context] is cancelled with that cause, and a [LostError] says more. A Lock that has ended
// never becomes valid again. A paused process notices the end only when it runs again. Work that must
// never overlap needs a resource that checks fencing tokens (WithFencing).
//
// A share (WithShared) is a handle on the lease of another Lock. It has no keys of its own: its Extend
// and Check are those of that Lock. It has a Release and a maximum hold of its own. It ends no later than
// the Lock that it shares.
type Lock struct {
	hold
	family  family
	release releaseCall
	ctx     *leaseContext // made on first use; guarded by mu
}

// releaseCall is the state of the first call of Release.
type releaseCall struct {
	called  bool           // guarded by the hold's mu
	running sync.WaitGroup // not sync.Once: to block there stops the time of a testing/synctest bubble
	err     error          // its result; readable when it is not running any more
}

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

// lockOf returns the Lock of a hold.
func lockOf(h *hold) *Lock { return h.holder.Owner.(*Lock) }

// ID returns an identifier of the acquisition for logs, metrics and databases. It is 24 hexadecimal
// digits, the first 96 bits of the token's SHA-256, from which the token cannot be derived. A lock,
// its shares, and the handles that Resume makes for it have the same ID. No other lock has it.
func (lk *Lock) ID() string { return command.ID(lk.args.Token()) }

// Remaining returns how long the lock is still valid. Drift and a margin for late timers are
// subtracted (WithDrift), and the clock counts suspended time. If the result is 0 or less, the work
// must stop. Remaining needs no network.
func (lk *Lock) Remaining() time.Duration {
	left := lk.remaining(lk.l.now())
	if left > 0 && lk.isShare() {
		left = min(left, lockOf(lk.outer).Remaining())
	}
	return left
}

// String describes the lock without its token: names, ID, fence and remaining validity.
func (lk *Lock) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %s id=%s", quoted(lk.holder.Names), lk.ID())
	if lk.fence != 0 {
		fmt.Fprintf(&b, " fence=%d", lk.fence)
	}
	fmt.Fprintf(&b, " remaining=%v", max(0, lk.Remaining()).Round(time.Millisecond))
	return b.String()
}

// GoString returns String, so that %#v shows neither the token nor fields that change concurrently.
func (lk *Lock) GoString() string { return lk.String() }

// isHeld reports whether the lock is held. It reads the clock and does not depend on timers.
func (lk *Lock) isHeld() bool {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.lease.Held()
}

// onTimer applies what is due. The end of contexts costs the more, the more users have derived from
// them or bound to them, and all other ends depend on this goroutine. So another one ends them, and a
// share, which may end its lock first.
func (lk *Lock) onTimer() {
	now := lk.l.now()
	lk.mu.Lock()
	endsContexts := (lk.ctx != nil || len(lk.family.shares) > 0 || lk.isShare()) && lk.lease.Held() && lk.lease.Over(now)
	if endsContexts {
		lk.l.timers.Clear(&lk.timer)
	}
	lk.mu.Unlock()
	if endsContexts {
		lk.l.ends.Add(&lk.hold)
		return
	}
	lk.onDue()
}

// onDue applies what is due, and sets the timer to what is next.
func (lk *Lock) onDue() {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.scheduleLocked()
}

// applyDue does what the clock says is due: it ends the hold or its context, or starts an extension
// or a repair. The timer calls it, and so does every method that reports the lock's state. Their
// answer is then right even if no timer has run (docs/dev/hazards.md H24, H62, H107).
func (lk *Lock) applyDue() {
	if outer := lk.outer; outer != nil {
		lockOf(outer).applyDue() // a share ends with it
		if cause := lockOf(outer).contextCause(); cause != nil {
			lk.cancelOwnContext(cause)
		}
	}
	now := lk.l.now()
	lk.mu.Lock()
	due, cause := lk.lease.Due(now), lk.stopped
	var unsent vote.Unsent
	switch due {
	case lease.Repair:
		unsent = repairLocked(&lk.hold)
	case lease.Extend:
		_, unsent = extendLocked(&lk.hold, lk.opts.ttl, true) // the outcome comes by onDecision
	}
	lk.mu.Unlock()
	unsent.Settle()
	switch {
	case due == lease.End:
		end := lk.loss()
		if told := lossIn(cause); told != nil && told.end.sameAs(end) && !lk.isShare() {
			end = told.end // the stop margin has begun with it
		}
		lk.end(lk.lostBy(end), undoByLibrary)
	case cause != nil: // the context or the hold has ended
		lk.cancelOwnContext(cause)
	case due == lease.EndContext: // the timer is due too, and sets itself to the end
		lk.cancelContext(lk.lostBy(lk.loss()))
	}
}

// endMode states what happens to the keys when a hold ends.
type endMode uint8

const (
	keepKeys   endMode = iota
	undoKeys           // at once, on the goroutine of a caller
	undoUnused         // the same, of a lock that no caller got: it has no minimum hold
	// By the undo queue: this may be the timers' goroutine, on which all other ends depend.
	undoByLibrary
)

// end ends the hold for good. First all shares end, then the context, and only then the keys are
// undone (docs/dev/hazards.md H113). Before the undo it calls no user code, and waits only for another
// goroutine that ends the same contexts. It reports whether this call ended the hold.
func (lk *Lock) end(cause error, keys endMode) bool {
	e := ending{lk: lk, cause: cause, keys: keys, at: lk.l.now()}
	lk.mu.Lock()
	ended := e.beginLocked()
	lk.mu.Unlock()
	if ended {
		e.finish()
	}
	return ended
}

// ending is the end of one handle: what is decided under its mutex, and what follows from it.
type ending struct {
	lk    *Lock
	cause error
	keys  endMode
	at    clock.Instant

	first  error // why the context ended, maybe before the handle
	own    *leaseContext
	shares []*Lock
	left   time.Duration // of the validity
	had    report.Copies
}

// beginLocked marks the hold as ended. It returns false if it had ended before.
func (e *ending) beginLocked() bool {
	lk := e.lk
	if !lk.lease.Held() {
		return false
	}
	lk.cause = e.cause
	if e.keys == undoUnused {
		lk.opts.minHold = 0
	}
	lk.keys.dropAcquire()
	e.had, e.left = lk.extending.copies(), lk.lease.End(e.at)
	lk.extending.cancel() // before the undo: a node that may send one again would do so behind it
	e.first, e.own, e.shares = lk.stopLocked(e.cause), lk.ctx, lk.family.list()
	if !lk.isShare() {
		lk.l.group.NoteEnded(lk.args.Token(), e.keys == keepKeys)
	}
	lk.scheduleLocked()
	return true
}

// finish ends the shares and the contexts, and then undoes the keys.
func (e *ending) finish() {
	lk := e.lk
	for _, s := range e.shares {
		s.end(e.cause, keepKeys)
		s.cancelContext(e.first) // also if another goroutine ends it
	}
	if e.own != nil {
		e.own.end(e.first)
	}
	lk.l.reporter.ended(lk.subject(), e.cause, e.at, e.left, lk.isShare() && lossIn(e.cause) == lossIn(lk.outer.endCause()))
	lk.l.holdLog.Changed(e.had, report.Copies{}, 0, nil)
	switch {
	case lk.isShare():
		outer := lockOf(lk.outer)
		outer.mu.Lock()
		delete(outer.family.shares, lk)
		outer.mu.Unlock()
	case e.keys == undoKeys, e.keys == undoUnused:
		lk.startUndo()
	case e.keys == undoByLibrary:
		lk.l.undos.Add(&lk.hold)
	default:
		lk.l.waiting.Ended(&lk.holder)
	}
}

// cancelContext ends the context of the lock, those that are bound to it, and those of its shares, but
// not the handles. Only the first cause counts. What is bound to the lock has ended when it returns, also
// if another goroutine ends it. It is called for each end, and not for each question.
func (lk *Lock) cancelContext(cause error) {
	lk.mu.Lock()
	cause = lk.stopLocked(cause)
	own, shares := lk.ctx, lk.family.list()
	lk.mu.Unlock()
	for _, s := range shares {
		s.cancelContext(cause)
	}
	if own != nil {
		own.end(cause)
	}
}

// cancelOwnContext ends the context of a lock that has ended, or that of a share of one: the goroutine
// that ends it may not have come so far. It leaves all others to that goroutine.
func (lk *Lock) cancelOwnContext(cause error) {
	lk.mu.Lock()
	cause = lk.stopLocked(cause)
	own := lk.ctx
	lk.mu.Unlock()
	if own != nil {
		own.cancel(cause)
	}
}
