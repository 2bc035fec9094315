package redlock

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/lease"
	"github.com/quorumlock/go-redlock/internal/report"
	"github.com/quorumlock/go-redlock/internal/vote"
)

// isHeld reports whether the lock is held. It reads the clock and does not depend on timers.
func (lk *Lock) isHeld() bool {
	lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	return lk.lease.Held()
}

// onTimer applies what is due. The end of contexts costs the more, the more users have derived from
// them or bound to them, and all other ends depend on this goroutine. So another one ends them.
func (lk *Lock) onTimer() {
	now := lk.l.now()
	lk.mu.Lock()
	endsContexts := (lk.ctx.own != nil || len(lk.family.shares) > 0) && lk.lease.Held() && lk.lease.Over(now)
	if endsContexts {
		lk.l.timers.Clear(&lk.timer)
	}
	lk.mu.Unlock()
	if endsContexts {
		lk.l.ends.Add(lk)
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
		outer.lock().applyDue() // a share ends with it
		if cause := outer.lock().contextCause(); cause != nil {
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
		_, unsent = lk.extendLocked(lk.opts.ttl, true) // the outcome comes by onDecision
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
// undone (docs/dev/hazards.md H113). Before the undo it calls no user code and waits for nothing. It
// reports whether this call ended the hold.
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
	e.first, e.own, e.shares = lk.ctx.endLocked(e.cause), lk.ctx.own, lk.family.list()
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
	lk.l.reporter.ended(&lk.hold, e.cause, e.at, e.left)
	lk.l.holdLog.Changed(e.had, report.Copies{}, 0, nil)
	switch {
	case lk.isShare():
		outer := lk.outer.lock()
		outer.mu.Lock()
		delete(outer.family.shares, lk)
		outer.mu.Unlock()
	case e.keys == undoKeys, e.keys == undoUnused:
		lk.startUndo()
	case e.keys == undoByLibrary:
		lk.l.undos.Add(lk)
	default:
		lk.l.waiting.Ended(&lk.holder)
	}
}

// cancelContext ends the context of the lock, those that are bound to it, and those of its shares, but
// not the handles. Only the first cause counts. What is bound to the lock has ended when it returns, also
// if another goroutine ends it. It is called for each end, and not for each question.
func (lk *Lock) cancelContext(cause error) {
	lk.mu.Lock()
	cause = lk.ctx.endLocked(cause)
	own, shares := lk.ctx.own, lk.family.list()
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
