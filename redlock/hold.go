package redlock

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/timer"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// noDeadline is an instant that never comes, such as the end of a share's own validity.
const noDeadline = lease.Never

// markHeld turns the acquisition into a held lock.
func (lk *Lock) markHeld(until, now clock.Instant) {
	lk.traceHold(lk.l.traces().Started, nil, now, until.Sub(now))
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.lease.Begin(lk.hold.Began, until, now)
	lk.dropAcquireLocked()
	lk.scheduleLocked()
}

// wasHeld reports whether the acquisition, which is over, has got the lock.
func (lk *Lock) wasHeld() bool {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return !lk.lease.Acquiring()
}

// dropAcquireLocked drops the acquisition of a held lock if every node has answered it, to save its
// memory. Of the answers it keeps only which nodes hold nothing.
func (lk *Lock) dropAcquireLocked() {
	if lk.keys.acquire == nil {
		return
	}
	if empty, all := lk.keys.acquire.EmptyNodes(); all {
		lk.keys.acquire, lk.keys.empty = nil, empty
	}
}

// leaseTimer is the timer's view of a Lock. It keeps Fire out of Lock's method set.
type leaseTimer Lock

// Fire is called by the Locker's timers.
func (r *leaseTimer) Fire(*timer.Timer) { (*Lock)(r).onTimer() }

// onTimer applies what is due. The end of contexts costs the more, the more users have derived from
// them or bound to them, and all other ends depend on this goroutine. So another one ends them.
func (lk *Lock) onTimer() {
	if lk.endsContexts() {
		lk.l.ends.Add(lk)
		return
	}
	lk.onDue()
}

// endsContexts reports whether what is due ends contexts. The timer is then not set any more.
func (lk *Lock) endsContexts() bool {
	now := lk.l.now()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	if lk.ctx.own == nil && len(lk.family.shares) == 0 || !lk.lease.Held() || !lk.lease.Over(now) {
		return false
	}
	lk.l.timers.Clear(&lk.timer)
	return true
}

// onDue applies what is due, and sets the timer to what is next.
func (lk *Lock) onDue() {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.scheduleLocked()
}

// scheduleLocked sets the timer to the next instant at which something is due, if the lock is held.
func (lk *Lock) scheduleLocked() {
	at := lk.lease.Next()
	if at == noDeadline {
		lk.l.timers.Clear(&lk.timer)
		return
	}
	lk.l.timers.Set(&lk.timer, at, (*leaseTimer)(lk))
}

// applyDue does what the clock says is due: it ends the hold or its context, or starts an extension
// or a repair. The timer calls it, and so does every method that reports the lock's state. Their
// answer is then right even if no timer has run (docs/dev/hazards.md H24, H62, H107).
func (lk *Lock) applyDue() {
	if outer := lk.family.shareOf; outer != nil {
		outer.applyDue() // a share ends with it
		if cause := outer.contextCause(); cause != nil {
			lk.cancelOwnContext(cause)
		}
	}
	now := lk.l.now()
	lk.mu.Lock()
	due, cause := lk.lease.Due(now), lk.ctx.cause
	var unsent vote.Unsent
	switch due {
	case lease.Repair:
		unsent = lk.repairLocked()
	case lease.Extend:
		_, unsent, _ = lk.extendLocked(lk.opts.ttl, true) // the outcome comes by onDecision
	}
	lk.mu.Unlock()
	unsent.Settle()
	switch {
	case due == lease.End:
		lk.end(lk.lostBy(lk.loss()), undoByLibrary)
	case cause != nil: // the context or the hold has ended
		lk.cancelOwnContext(cause)
	case due == lease.EndContext: // the timer is due too, and sets itself to the end
		lk.cancelContext(lk.lostBy(lk.loss()))
	}
}

// cancelContext ends the context of the lock, those that are bound to it, and those of its shares, but
// not the handles. Only the first cause counts. What is bound to the lock has ended when it returns, also
// if another goroutine ends it. It is called for each end, and not for each question.
func (lk *Lock) cancelContext(cause error) {
	lk.mu.Lock()
	cause = lk.ctx.endLocked(cause)
	own, shares := lk.ctx.own, lk.shareListLocked()
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
	cause = lk.ctx.endLocked(cause)
	own := lk.ctx.own
	lk.mu.Unlock()
	if own != nil {
		own.cancel(cause)
	}
}

// endMode states what happens to the keys when a hold ends.
type endMode uint8

const (
	keepKeys endMode = iota
	undoKeys         // at once, on the goroutine of a caller
	// By the undo queue: this may be the timers' goroutine, on which all other ends depend.
	undoByLibrary
)

// end ends the hold for good. First all shares end, then the context, and only then the keys are
// undone (docs/dev/hazards.md H113). Before the undo it calls no user code and waits for nothing. It
// reports whether this call ended the hold.
func (lk *Lock) end(cause error, keys endMode) bool {
	now := lk.l.now()
	lk.mu.Lock()
	if !lk.lease.Held() {
		lk.mu.Unlock()
		return false
	}
	lk.cause = cause
	lk.dropAcquireLocked()
	had := lk.copiesLocked()
	left := lk.lease.End(now)
	lk.cancelExtensionsLocked() // before the undo: a node that may send one again would do so behind it
	first := lk.ctx.endLocked(cause)
	own, shares := lk.ctx.own, lk.shareListLocked()
	if lk.family.shareOf == nil {
		lk.l.group.NoteEnded(lk.args.Token(), keys == keepKeys)
	}
	lk.scheduleLocked()
	lk.mu.Unlock()
	for _, s := range shares {
		s.end(cause, keepKeys)
		s.cancelContext(first) // also if another goroutine ends it
	}
	if own != nil {
		own.end(first)
	}
	lk.logEnd(cause)
	lk.traceHold(lk.l.traces().Ended, cause, now, left)
	lk.l.holdLog.Changed(had, report.Copies{}, 0, nil)
	switch {
	case lk.family.shareOf != nil:
		lk.family.shareOf.removeShare(lk)
	case keys == undoKeys:
		lk.startUndo()
	case keys == undoByLibrary:
		lk.l.undos.Add(lk)
	default:
		lk.l.waiting.Ended(&lk.hold)
	}
	return true
}
