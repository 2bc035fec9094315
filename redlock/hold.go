package redlock

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// noDeadline is an instant that never comes, such as the end of a share's own validity.
const noDeadline = clock.Instant(1<<63 - 1)

// markHeld turns the acquisition into a held lock.
func (lk *Lock) markHeld(until, now clock.Instant) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.phase, lk.until, lk.progress = held, until, now
	lk.nextShrink = now.Add(shrinkAfter)
	lk.nextExtendAt = lk.nextExtensionLocked(now)
	lk.scheduleLocked()
}

// shrinkAfter is how long a lock is held before it drops the round of its acquisition, and how soon
// it tries again if a node has not answered by then.
const shrinkAfter = 500 * time.Millisecond

// dropAcquireLocked drops the acquisition of a lock that is held for long, once every node has
// answered it. It keeps only the set of nodes that hold nothing.
func (lk *Lock) dropAcquireLocked(now clock.Instant) {
	if now.Before(lk.nextShrink) {
		return
	}
	lk.nextShrink = now.Add(shrinkAfter)
	if lk.acquire != nil {
		holding, all := lk.acquire.MayHold()
		if !all {
			return
		}
		lk.acquire.Release()
		lk.acquire, lk.mayHold = nil, holding
	}
	lk.nextShrink = noDeadline
}

// leaseTimer is the alarm's view of a Lock. It keeps Fire out of Lock's method set.
type leaseTimer Lock

// Fire is called by the Locker's alarms.
func (r *leaseTimer) Fire(*alarm.Alarm) { (*Lock)(r).onTimer() }

// onTimer applies what is due, and schedules the next call.
func (lk *Lock) onTimer() {
	deferred := lk.applyDue()
	lk.mu.Lock()
	defer lk.mu.Unlock()
	at := lk.nextDeadlineLocked()
	if deferred && !lk.lost {
		at = min(lk.l.now().Add(lk.firstPause()), lk.endNowLocked().Add(-lk.opts.stopMargin))
	}
	lk.scheduleAtLocked(at)
}

// scheduleLocked sets the alarm to the next instant at which something is due.
func (lk *Lock) scheduleLocked() { lk.scheduleAtLocked(lk.nextDeadlineLocked()) }

// scheduleAtLocked sets the alarm to an instant if the lock is held.
func (lk *Lock) scheduleAtLocked(at clock.Instant) {
	if lk.phase != held || at == noDeadline {
		lk.l.alarms.Clear(&lk.alarm)
		return
	}
	// After a suspend an end may be noticed this late: see Context.
	lk.l.alarms.Set(&lk.alarm, at, min(250*time.Millisecond, lk.ttl/10), (*leaseTimer)(lk))
}

// applyDue does what the clock says is due: it ends the hold or its context, or starts an extension
// or a repair. The alarm calls it, and so does every method that reports the lock's state. Their
// answer is then right even if no timer has run (docs/dev/hazards.md H24, H62, H107).
//
// It returns true if it deferred an extension or a repair because another goroutine holds sending.
// That goroutine may be inside a node's Submit, and the timers' goroutine must not wait for it.
func (lk *Lock) applyDue() (deferred bool) {
	if lk.shareOf != nil {
		lk.shareOf.applyDue() // a share ends with it
	}
	now := lk.l.now()
	lk.mu.Lock()
	if lk.phase != held { // before that no other goroutine may read the fields below
		cause := lk.cause
		lk.mu.Unlock()
		if cause != nil {
			lk.cancelContext(cause) // the goroutine that ended it may not have done so yet
		}
		return false
	}
	lk.dropAcquireLocked(now)
	end, cause := lk.endNowLocked(), lk.endCauseLocked()
	switch {
	case lk.lost || !now.Before(end):
		lk.mu.Unlock()
		lk.end(cause, undoByLibrary)
	case !now.Before(end.Add(-lk.opts.stopMargin)):
		if !lk.extensionStopped {
			lk.extensionStopped = true
			lk.scheduleLocked()
		}
		lk.mu.Unlock()
		lk.cancelContext(cause)
	case lk.toRepair != nil && !lk.extensionStopped && !lk.sending.TryLock():
		lk.mu.Unlock()
		return true
	case lk.toRepair != nil && !lk.extensionStopped:
		lk.mu.Unlock()
		lk.repair()
	case lk.wantsExtensionLocked(now) && now.Before(lk.extendQueueLimitLocked()) && lk.l.extendLimiter.enqueue(lk):
		lk.extendQueued, lk.nextExtendAt = true, lk.extendQueueLimitLocked()
		lk.scheduleLocked()
		lk.mu.Unlock()
	case lk.wantsExtensionLocked(now) && !lk.sending.TryLock():
		lk.mu.Unlock()
		return true
	case lk.wantsExtensionLocked(now):
		ttl := lk.ttl
		lk.nextExtendAt = now.Add(2 * lk.l.set.timeout(ttl)) // replaced by the outcome
		lk.scheduleLocked()
		lk.mu.Unlock()
		_, _ = lk.startExtend(ttl, autoExtension) // the outcome comes by onDecision
	default:
		lk.mu.Unlock()
	}
	return false
}

// extendQueueLimitLocked returns until when an extension may be queued in the extendLimiter: one
// regular interval before the stop margin begins.
func (lk *Lock) extendQueueLimitLocked() clock.Instant {
	return lk.until.Add(-lk.opts.stopMargin - lk.extendInterval())
}

// resumeExtend is called by the extendLimiter when the lock may extend.
func (lk *Lock) resumeExtend() {
	now := lk.l.now()
	lk.mu.Lock()
	if lk.extendQueued {
		lk.extendQueued, lk.nextExtendAt = false, now
	}
	lk.mu.Unlock()
	lk.onTimer()
}

// endNowLocked returns the instant at which the hold ends if nothing else happens.
func (lk *Lock) endNowLocked() clock.Instant {
	if lk.opts.maxHold == 0 {
		return lk.until
	}
	return min(lk.until, lk.hold.Began.Add(lk.opts.maxHold))
}

// endCauseLocked returns the cause of that end.
func (lk *Lock) endCauseLocked() error {
	if !lk.lost && lk.endNowLocked().Before(lk.until) {
		return ErrMaxHold
	}
	return ErrLost
}

// nextDeadlineLocked returns the next instant at which applyDue has something to do.
func (lk *Lock) nextDeadlineLocked() clock.Instant {
	if lk.lost {
		return lk.endedAt
	}
	at := lk.endNowLocked()
	if at != noDeadline && !lk.extensionStopped {
		at = at.Add(-lk.opts.stopMargin)
	}
	if lk.toRepair != nil && !lk.extensionStopped {
		at = lk.hold.Began // now
	}
	if lk.extendsLocked() {
		at = min(at, lk.nextExtendAt)
	}
	if at != noDeadline {
		at = min(at, lk.nextShrink)
	}
	return at
}

// extendsLocked reports whether the lock is extended automatically.
func (lk *Lock) extendsLocked() bool {
	return lk.opts.autoExtend && !lk.extensionStopped && lk.root == nil
}

func (lk *Lock) wantsExtensionLocked(now clock.Instant) bool {
	if !lk.extendsLocked() || now.Before(lk.nextExtendAt) {
		return false
	}
	if lk.opts.progress > 0 && now.Sub(lk.progress) >= lk.opts.progress {
		lk.nextExtendAt = noDeadline // the work hangs; a later Progress resumes the extensions
		return false
	}
	return true
}

// nextExtensionLocked returns when to extend next, after a success at now. That is after a third of
// the validity before the stop margin. It is less than the regular interval after Resume, after an
// Extend for a short time, or after a Check that shortened the validity.
func (lk *Lock) nextExtensionLocked(now clock.Instant) clock.Instant {
	lk.retries = 0
	return now.Add(min(lk.extendInterval(), max(0, lk.until.Sub(now)-lk.opts.stopMargin)/3))
}

// nextRetryLocked returns when to extend again after a failure: soon at first, then at doubling
// intervals up to the regular one.
func (lk *Lock) nextRetryLocked(now clock.Instant) clock.Instant {
	const doublings = 8
	pause := min(lk.firstPause()<<lk.retries, lk.extendInterval())
	lk.retries = min(lk.retries+1, doublings)
	return now.Add(pause/2 + rand.N(pause/2+1))
}

// firstPause returns the pause before the first retry of a failed or deferred extension.
func (lk *Lock) firstPause() time.Duration { return max(lk.extendInterval()/16, time.Millisecond) }

func (lk *Lock) extendInterval() time.Duration {
	return (lk.l.set.validity(lk.ttl) - lk.opts.stopMargin) / 3
}

// cancelContext ends the context of the lock and of its shares, but not the handles. Only the first
// cause counts.
func (lk *Lock) cancelContext(cause error) {
	lk.mu.Lock()
	if lk.ctxCause == nil {
		lk.ctxCause = cause
	}
	cause = lk.ctxCause
	cancel, shares := lk.cancel, lk.shareListLocked()
	lk.mu.Unlock()
	for _, s := range shares {
		s.cancelContext(cause)
	}
	if cancel != nil {
		cancel(cause)
	}
}

// endMode states what happens to the keys when a hold ends.
type endMode uint8

const (
	keepKeys endMode = iota
	undoKeys         // at once, on the goroutine of a caller
	// By the undo queue: this may be the alarms' goroutine, on which all other ends depend.
	undoByLibrary
)

// end ends the hold for good. First all shares end, then the context, and only then the keys are
// undone (docs/dev/hazards.md H113). Before the undo it calls no user code and waits for nothing. It
// reports whether this call ended the hold.
func (lk *Lock) end(cause error, keys endMode) bool {
	now := lk.l.now()
	lk.mu.Lock()
	if lk.phase != held {
		lk.mu.Unlock()
		return false
	}
	lk.phase, lk.cause = ended, cause
	var left time.Duration
	if !lk.lost {
		lk.endedAt = min(now, lk.endNowLocked())
		if lk.root == nil {
			left = lk.endNowLocked().Sub(now)
		}
	}
	shares := lk.shareListLocked()
	lk.scheduleLocked()
	lk.mu.Unlock()
	for _, s := range shares {
		s.end(cause, keepKeys)
	}
	lk.cancelContext(cause)
	lk.traceEnd(cause, now, left)
	switch {
	case lk.root != nil:
		lk.shareOf.removeShare(lk)
	case keys == undoKeys:
		lk.startUndo(undoHold)
	case keys == undoByLibrary:
		lk.l.undos.add(lk)
	default:
		lk.l.waiting.Ended(&lk.hold)
	}
	return true
}
