package lease

import (
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/quorum"
)

// Never is an instant that does not come, such as the end of a lease without an end of its own.
const Never = clock.Instant(1<<63 - 1)

// Terms are the conditions of a lease. They are constant.
type Terms struct {
	AutoExtend bool
	// Interval is the regular time between two automatic extensions.
	Interval time.Duration
	// Patience is how long an automatic extension may have no outcome until the next one is due.
	Patience time.Duration
	// StopMargin is how long before its end the lease stops being extended, and its context ends.
	StopMargin time.Duration
	// MaxHold bounds the lease from its beginning, regardless of extensions. 0: there is no bound.
	MaxHold time.Duration
	// Progress is how long the work may go without reporting progress before extensions stop. 0:
	// there is no bound.
	Progress time.Duration
}

// Suffices reports whether a validity is of use. Otherwise the context would end at once.
func (t *Terms) Suffices(left time.Duration) bool { return left > t.StopMargin }

// Lease is the validity of one lock. It has not begun before Begin.
type Lease struct {
	Terms Terms

	phase phase
	// stopped: nothing extends the lease any more, although it is held.
	stopped bool
	closed  bool  // the Locker was closed, which stopped it
	retries uint8 // failed extensions since the last success, up to a bound

	began     clock.Instant // of the acquisition
	until     clock.Instant // end of the validity; a loss and End bring it forward
	confirmed clock.Instant // start of the last round in which a quorum confirmed the lock
	asked     clock.Instant // start of the last extension
	extended  clock.Instant // when the last extension that took effect began
	extendAt  clock.Instant // next automatic extension
	progress  clock.Instant // last report of progress
	missing   quorum.Nodes  // to repair
}

type phase uint8

const (
	acquiring phase = iota
	held
	lost // a quorum reported that the token is gone; End follows
	ended
)

// Begin begins the lease. began is the start of the acquisition, from which MaxHold counts. until
// is the end of the validity.
func (l *Lease) Begin(began, until, now clock.Instant) {
	l.phase, l.began, l.confirmed, l.until, l.progress = held, began, began, until, now
	l.extendAt = l.nextExtension(now)
}

// Held reports whether the lease has begun and End was not called yet. Its validity may be over.
func (l *Lease) Held() bool { return l.phase == held || l.phase == lost }

// Acquiring reports whether the lease has not begun.
func (l *Lease) Acquiring() bool { return l.phase == acquiring }

// Valid reports whether the lease is valid at an instant.
func (l *Lease) Valid(now clock.Instant) bool { return l.phase == held && now.Before(l.Ends()) }

// Extendable reports whether the lease is valid and may still be extended or repaired.
func (l *Lease) Extendable(now clock.Instant) bool { return l.Valid(now) && !l.stopped }

// Stopped reports whether nothing extends the lease any more.
func (l *Lease) Stopped() bool { return l.stopped }

// Ends returns the instant at which the lease ends if nothing else happens, or has ended. No extension
// and no repair may be sent at or after that instant.
func (l *Lease) Ends() clock.Instant {
	if l.Terms.MaxHold == 0 {
		return l.until
	}
	return min(l.until, l.began.Add(l.Terms.MaxHold))
}

// EndsByMaxHold reports whether MaxHold, and no loss, is why the lease ends.
func (l *Lease) EndsByMaxHold() bool { return l.phase != lost && l.Ends().Before(l.until) }

// Remaining returns how long the lease is still valid. It is 0 or less if it is not.
func (l *Lease) Remaining(now clock.Instant) time.Duration {
	if l.phase != held { // also if the clock was set back
		return min(l.Ends().Sub(now), 0)
	}
	return l.Ends().Sub(now)
}

// MarkLost marks a lease whose token a quorum refused. The first call determines when it was lost.
// It reports whether this was the first call.
func (l *Lease) MarkLost(now clock.Instant) bool {
	if l.phase != held {
		return false
	}
	l.phase, l.until = lost, min(l.until, now)
	return true
}

// End ends the lease. It returns the validity that was left.
func (l *Lease) End(now clock.Instant) (left time.Duration) {
	left = l.Remaining(now)
	l.phase, l.until = ended, min(l.until, now)
	return left
}

// StopExtending makes the lease end at its present end, because the Locker was closed. It is neither
// extended nor repaired.
func (l *Lease) StopExtending() { l.stopped, l.closed = true, true }

// Asked records that an extension is sent.
func (l *Lease) Asked(start clock.Instant) { l.asked = start }

// Extended records an extension: a quorum confirmed at now that it keeps the lock until an instant,
// counted from start. It reports whether the extension took effect. A lease that has ended stays
// ended (docs/dev/hazards.md H114), and the end never moves back.
func (l *Lease) Extended(start, until, now clock.Instant) bool {
	if l.Valid(now) { // also within the stop margin: the nodes keep the lock
		l.confirmed = max(l.confirmed, start)
	}
	if !l.Extendable(now) {
		return false
	}
	l.extended = max(l.extended, start)
	l.until = max(l.until, until)
	l.extendAt = l.nextExtension(start)
	return true
}

// ExtendFailed records that an automatic extension failed. The next one is due soon at first, then
// at doubling intervals up to the regular one.
func (l *Lease) ExtendFailed(now clock.Instant) {
	if !l.Extendable(now) {
		return
	}
	const doublings = 8
	first := max(l.Terms.Interval/16, time.Millisecond)
	pause := min(first<<l.retries, l.Terms.Interval)
	l.retries = min(l.retries+1, doublings)
	l.extendAt = now.Add(pause/2 + rand.N(pause/2+1))
}

// nextExtension returns when to extend next, after a success at now. That is after a third of the
// validity before the stop margin. It is less than the regular interval after Resume, after an
// Extend for a short time, or after Check shortened the validity.
func (l *Lease) nextExtension(now clock.Instant) clock.Instant {
	l.retries = 0
	return now.Add(min(l.Terms.Interval, max(0, l.until.Sub(now)-l.Terms.StopMargin)/3))
}

// Checked records that a quorum of nodes, asked at an instant, keeps the lock until another one. If that
// is earlier than the end of the validity, it is the end from then on. An extension that began after that
// may not have reached them when they answered. One that began before it has, on a node that executes both in
// this order. Elsewhere the end is at worst too early.
func (l *Lease) Checked(asked, until, now clock.Instant) {
	l.confirmed = max(l.confirmed, asked)
	if !l.Valid(now) || l.extended.After(asked) || !until.Before(l.until) {
		return
	}
	l.until = until
	l.extendAt = min(l.extendAt, l.nextExtension(now))
}

// Missing records the nodes that lost the keys, so that they are repaired.
func (l *Lease) Missing(nodes quorum.Nodes, now clock.Instant) {
	if l.Extendable(now) {
		l.missing = nodes
	}
}

// TakeMissing returns the nodes to repair, and forgets them. There are none if the lease is not valid
// any more.
func (l *Lease) TakeMissing(now clock.Instant) (nodes quorum.Nodes) {
	nodes, l.missing = l.missing, 0
	if !l.Valid(now) {
		return 0
	}
	return nodes
}

// MadeProgress records that the work made progress. It reports whether an extension is due because
// of that.
func (l *Lease) MadeProgress(now clock.Instant) (resumed bool) {
	l.progress = now
	if l.extendAt != Never {
		return false
	}
	l.extendAt = now
	return true
}
