package redlock

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// noDeadline is an instant that does not come: the end of a share's own validity.
const noDeadline = clock.Instant(1<<63 - 1)

// markHeld makes the acquisition a held lock.
func (lk *Lock) markHeld(until, now clock.Instant) {
	lk.mu.Lock()
	defer lk.mu.Unlock()
	lk.phase, lk.until, lk.progress = held, until, now
	lk.nextShrink = now.Add(shrinkAfter)
	lk.nextExtendAt = lk.nextExtensionLocked(now)
	lk.scheduleLocked()
}

// leaseTimer is a lock as its alarm sees it: Ring is no method that a user should meet.
type leaseTimer Lock

// Fire is called by the Locker's alarms.
func (r *leaseTimer) Fire(*alarm.Alarm) { (*Lock)(r).onTimer() }

// onTimer does what is due, and sets the alarm to what comes next.
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

// scheduleLocked sets the alarm to the next instant at which something is due. Called under mu.
func (lk *Lock) scheduleLocked() { lk.scheduleAtLocked(lk.nextDeadlineLocked()) }

// scheduleAtLocked sets the alarm to an instant, while the lock is held. Called under mu.
func (lk *Lock) scheduleAtLocked(at clock.Instant) {
	if lk.phase != held || at == noDeadline {
		lk.l.alarms.Clear(&lk.alarm)
		return
	}
	// An end may be noticed this late after a suspend: see Context.
	lk.l.alarms.Set(&lk.alarm, at, min(250*time.Millisecond, lk.ttl/10), (*leaseTimer)(lk))
}

// applyDue does what the clock says is due: it ends the hold or its context, or
// extends. It is called by the alarm and by whoever asks how the lock stands, so
// that the answer is right also when no timer ran (docs/hazards.md H24, H62, H107).
//
// It returns true if it deferred an extension or a repair. A caller holds the sending lock then,
// and may be inside a node's Submit. The timers' goroutine must not wait for that.
func (lk *Lock) applyDue() (deferred bool) {
	if lk.shareOf != nil {
		lk.shareOf.applyDue() // its end is the share's
	}
	now := lk.l.now()
	lk.mu.Lock()
	if lk.phase != held { // before that nobody else may look at what is below
		cause := lk.cause
		lk.mu.Unlock()
		if cause != nil {
			lk.cancelContext(cause) // whoever ended it may not have come that far
		}
		return false
	}
	lk.dropExchangeLocked(now)
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
		lk.nextExtendAt = now.Add(2 * lk.l.set.timeout(ttl)) // until the outcome says otherwise
		lk.scheduleLocked()
		lk.mu.Unlock()
		_, _ = lk.startExtend(ttl, autoExtension) // its outcome comes by decided
	default:
		lk.mu.Unlock()
	}
	return false
}

// extendQueueLimitLocked is for how long a lock may wait for its turn to be extended: until a third of
// what its validity leaves before the stop margin is left, a regular interval before
// nothing extends it any more. Called under mu.
func (lk *Lock) extendQueueLimitLocked() clock.Instant {
	return lk.until.Add(-lk.opts.stopMargin - lk.extendInterval())
}

// resumeExtend is called when it is the lock's turn to be extended.
func (lk *Lock) resumeExtend() {
	now := lk.l.now()
	lk.mu.Lock()
	if lk.extendQueued {
		lk.extendQueued, lk.nextExtendAt = false, now
	}
	lk.mu.Unlock()
	lk.onTimer()
}

// endNowLocked is the instant at which the hold ends if nothing else happens. Called under mu.
func (lk *Lock) endNowLocked() clock.Instant {
	if lk.opts.maxHold == 0 {
		return lk.until
	}
	return min(lk.until, lk.began.Add(lk.opts.maxHold))
}

// endCauseLocked is why the hold ends then. Called under mu.
func (lk *Lock) endCauseLocked() error {
	if !lk.lost && lk.endNowLocked().Before(lk.until) {
		return ErrMaxHold
	}
	return ErrLost
}

// nextDeadlineLocked is the next instant at which settle has something to do. Called under mu.
func (lk *Lock) nextDeadlineLocked() clock.Instant {
	if lk.lost {
		return lk.endedAt
	}
	at := lk.endNowLocked()
	if at != noDeadline && !lk.extensionStopped {
		at = at.Add(-lk.opts.stopMargin)
	}
	if lk.toRepair != nil && !lk.extensionStopped {
		at = lk.began // now
	}
	if lk.extendsLocked() {
		at = min(at, lk.nextExtendAt)
	}
	if at != noDeadline {
		at = min(at, lk.nextShrink)
	}
	return at
}

// extendsLocked reports whether the lock extends itself. Called under mu.
func (lk *Lock) extendsLocked() bool {
	return lk.opts.autoExtend && !lk.extensionStopped && lk.root == nil
}

func (lk *Lock) wantsExtensionLocked(now clock.Instant) bool {
	if !lk.extendsLocked() || now.Before(lk.nextExtendAt) {
		return false
	}
	if lk.opts.progress > 0 && now.Sub(lk.progress) >= lk.opts.progress {
		lk.nextExtendAt = noDeadline // the work hangs; Progress may yet come
		return false
	}
	return true
}

// nextExtensionLocked is when to extend next, after a success at now: after a third of what
// the validity leaves before the stop margin. That is less than usual after Resume, an
// Extend for a short time, or a Check that found less. Called under mu.
func (lk *Lock) nextExtensionLocked(now clock.Instant) clock.Instant {
	lk.retries = 0
	return now.Add(min(lk.extendInterval(), max(0, lk.until.Sub(now)-lk.opts.stopMargin)/3))
}

// nextRetryLocked is when to extend again after a failure: soon, and then at doubling
// intervals, none longer than the regular one. Called under mu.
func (lk *Lock) nextRetryLocked(now clock.Instant) clock.Instant {
	const doublings = 8
	pause := min(lk.firstPause()<<lk.retries, lk.extendInterval())
	lk.retries = min(lk.retries+1, doublings)
	return now.Add(pause/2 + rand.N(pause/2+1))
}

// firstPause is how soon an extension is tried again that failed, or was deferred.
func (lk *Lock) firstPause() time.Duration { return max(lk.extendInterval()/16, time.Millisecond) }

func (lk *Lock) extendInterval() time.Duration {
	return (lk.l.set.validity(lk.ttl) - lk.opts.stopMargin) / 3
}

// cancelContext ends the context, and those of the shares, and leaves the handles. The first
// cause stands.
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

// endMode is what becomes of the keys when a hold ends.
type endMode uint8

const (
	keepKeys      endMode = iota
	undoKeys              // at once, on this goroutine, which is a caller's
	undoByLibrary         // by the undo queue: this may be the alarms' goroutine, on which all other ends depend
)

// end ends the hold: from here on nothing revives it. All shares end first,
// then its context; then, and never before, its keys are undone (docs/hazards.md H113).
// Up to there it calls no code of the user's and waits for nothing. It reports whether it
// was this call that ended it.
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
		lk.l.waitTable.noteEnded(lk)
	}
	return true
}
