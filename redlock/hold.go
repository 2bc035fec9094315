package redlock

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/alarm"
)

// never is an instant that does not come: the end of a share's own validity.
const never = clock.Instant(1<<63 - 1)

// hold makes the acquisition a held lock.
func (k *Lock) hold(until, now clock.Instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.phase, k.until, k.progress = held, until, now
	k.nextRest = now.Add(restAfter)
	k.nextTry = k.regularTry(now)
	k.arm()
}

// ringer is a lock as its alarm sees it: Ring is no method that a user should meet.
type ringer Lock

// Ring is called by the Locker's alarms.
func (r *ringer) Ring(*alarm.Alarm) { (*Lock)(r).ring() }

// ring does what is due, and sets the alarm to what comes next.
func (k *Lock) ring() {
	deferred := k.settle()
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.due()
	if deferred && !k.lost {
		at = min(k.l.now().Add(k.firstPause()), k.end().Add(-k.opts.stopMargin))
	}
	k.armAt(at)
}

// arm sets the alarm to the next instant at which something is due. Called under mu.
func (k *Lock) arm() { k.armAt(k.due()) }

// armAt sets the alarm to an instant, while the lock is held. Called under mu.
func (k *Lock) armAt(at clock.Instant) {
	if k.phase != held || at == never {
		k.l.alarms.Clear(&k.alarm)
		return
	}
	// An end may be noticed this late after a suspend: see Context.
	k.l.alarms.Set(&k.alarm, at, min(250*time.Millisecond, k.ttl/10), (*ringer)(k))
}

// settle does what the clock says is due: it ends the hold or its context, or
// extends. It is called by the alarm and by whoever asks how the lock stands, so
// that the answer is right also when no timer ran (docs/hazards.md H24, H62, H107).
//
// It returns true if it deferred an extension or a repair. A caller holds the sending lock then,
// and may be inside a node's Submit. The timers' goroutine must not wait for that.
func (k *Lock) settle() (deferred bool) {
	if k.of != nil {
		k.of.settle() // its end is the share's
	}
	now := k.l.now()
	k.mu.Lock()
	if k.phase != held { // before that nobody else may look at what is below
		cause := k.cause
		k.mu.Unlock()
		if cause != nil {
			k.stop(cause) // whoever ended it may not have come that far
		}
		return false
	}
	k.rest(now)
	end, cause := k.end(), k.endCause()
	switch {
	case k.lost || !now.Before(end):
		k.mu.Unlock()
		k.finish(cause, undoByLibrary)
	case !now.Before(end.Add(-k.opts.stopMargin)):
		if !k.noExtend {
			k.noExtend = true
			k.arm()
		}
		k.mu.Unlock()
		k.stop(cause)
	case k.missing != nil && !k.noExtend && !k.sending.TryLock():
		k.mu.Unlock()
		return true
	case k.missing != nil && !k.noExtend:
		k.mu.Unlock()
		k.repair()
	case k.wantsExtension(now) && now.Before(k.waitUntil()) && k.l.turns.wait(k):
		k.waits, k.nextTry = true, k.waitUntil()
		k.arm()
		k.mu.Unlock()
	case k.wantsExtension(now) && !k.sending.TryLock():
		k.mu.Unlock()
		return true
	case k.wantsExtension(now):
		ttl := k.ttl
		k.nextTry = now.Add(2 * k.l.set.timeout(ttl)) // until the outcome says otherwise
		k.arm()
		k.mu.Unlock()
		_, _ = k.startExtend(ttl, autoExtension) // its outcome comes by decided
	default:
		k.mu.Unlock()
	}
	return false
}

// waitUntil is for how long a lock may wait for its turn to be extended: until a third of
// what its validity leaves before the stop margin is left, a regular interval before
// nothing extends it any more. Called under mu.
func (k *Lock) waitUntil() clock.Instant { return k.until.Add(-k.opts.stopMargin - k.third()) }

// goOn is called when it is the lock's turn to be extended.
func (k *Lock) goOn() {
	now := k.l.now()
	k.mu.Lock()
	if k.waits {
		k.waits, k.nextTry = false, now
	}
	k.mu.Unlock()
	k.ring()
}

// end is the instant at which the hold ends if nothing else happens. Called under mu.
func (k *Lock) end() clock.Instant {
	if k.opts.maxHold == 0 {
		return k.until
	}
	return min(k.until, k.began.Add(k.opts.maxHold))
}

// endCause is why the hold ends then. Called under mu.
func (k *Lock) endCause() error {
	if !k.lost && k.end().Before(k.until) {
		return ErrMaxHold
	}
	return ErrLost
}

// due is the next instant at which settle has something to do. Called under mu.
func (k *Lock) due() clock.Instant {
	if k.lost {
		return k.endedAt
	}
	at := k.end()
	if at != never && !k.noExtend {
		at = at.Add(-k.opts.stopMargin)
	}
	if k.missing != nil && !k.noExtend {
		at = k.began // now
	}
	if k.extends() {
		at = min(at, k.nextTry)
	}
	if at != never {
		at = min(at, k.nextRest)
	}
	return at
}

// extends reports whether the lock extends itself. Called under mu.
func (k *Lock) extends() bool { return k.opts.autoExtend && !k.noExtend && k.root == nil }

func (k *Lock) wantsExtension(now clock.Instant) bool {
	if !k.extends() || now.Before(k.nextTry) {
		return false
	}
	if k.opts.progress > 0 && now.Sub(k.progress) >= k.opts.progress {
		k.nextTry = never // the work hangs; Progress may yet come
		return false
	}
	return true
}

// regularTry is when to extend next, after a success at now: after a third of what
// the validity leaves before the stop margin. That is less than usual after Resume, an
// Extend for a short time, or a Check that found less. Called under mu.
func (k *Lock) regularTry(now clock.Instant) clock.Instant {
	k.retries = 0
	return now.Add(min(k.third(), max(0, k.until.Sub(now)-k.opts.stopMargin)/3))
}

// retry is when to extend again after a failure: soon, and then at doubling
// intervals, none longer than the regular one. Called under mu.
func (k *Lock) retry(now clock.Instant) clock.Instant {
	const doublings = 8
	pause := min(k.firstPause()<<k.retries, k.third())
	k.retries = min(k.retries+1, doublings)
	return now.Add(pause/2 + rand.N(pause/2+1))
}

// firstPause is how soon an extension is tried again that failed, or was deferred.
func (k *Lock) firstPause() time.Duration { return max(k.third()/16, time.Millisecond) }

func (k *Lock) third() time.Duration {
	return (k.l.set.validity(k.ttl) - k.opts.stopMargin) / 3
}

// stop ends the context, and those of the shares, and leaves the handles. The first
// cause stands.
func (k *Lock) stop(cause error) {
	k.mu.Lock()
	if k.ctxCause == nil {
		k.ctxCause = cause
	}
	cause = k.ctxCause
	cancel, shares := k.cancel, k.shareList()
	k.mu.Unlock()
	for _, s := range shares {
		s.stop(cause)
	}
	if cancel != nil {
		cancel(cause)
	}
}

// keysAfter is what becomes of the keys when a hold ends.
type keysAfter uint8

const (
	leaveKeys     keysAfter = iota
	undoKeys                // at once, on this goroutine, which is a caller's
	undoByLibrary           // by the undo queue: this may be the alarms' goroutine, on which all other ends depend
)

// finish ends the hold: from here on nothing revives it. All shares end first,
// then its context; then, and never before, its keys are undone (docs/hazards.md H113).
// Up to there it calls no code of the user's and waits for nothing. It reports whether it
// was this call that ended it.
func (k *Lock) finish(cause error, keys keysAfter) bool {
	now := k.l.now()
	k.mu.Lock()
	if k.phase != held {
		k.mu.Unlock()
		return false
	}
	k.phase, k.cause = ended, cause
	var left time.Duration
	if !k.lost {
		k.endedAt = min(now, k.end())
		if k.root == nil {
			left = k.end().Sub(now)
		}
	}
	shares := k.shareList()
	k.arm()
	k.mu.Unlock()
	for _, s := range shares {
		s.finish(cause, leaveKeys)
	}
	k.stop(cause)
	k.traceEnd(cause, now, left)
	switch {
	case k.root != nil:
		k.of.dropShare(k)
	case keys == undoKeys:
		k.takeBack(undoHold)
	case keys == undoByLibrary:
		k.l.undos.add(k)
	default:
		k.l.waiters.left(k)
	}
	return true
}
