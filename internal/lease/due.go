package lease

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Action is what a lock has to do.
type Action uint8

// The actions, from the most urgent one.
const (
	Nothing    Action = iota
	End               // the validity or MaxHold is over, or the lock was lost
	EndContext        // the stop margin has begun
	Repair            // nodes lost the keys
	Extend            // an automatic extension is due
)

// String returns the name of the action.
func (a Action) String() string {
	return [...]string{"nothing", "end", "end the context", "repair", "extend"}[a]
}

// Due returns what is due at an instant. After EndContext nothing extends the lease any more.
func (l *Lease) Due(now clock.Instant) Action {
	switch {
	case l.phase != held:
		return Nothing
	case l.lost || !now.Before(l.Ends()):
		return End
	case !now.Before(l.Ends().Add(-l.Terms.StopMargin)):
		l.stopped = true
		return EndContext
	case l.missing != 0 && !l.stopped:
		return Repair
	case l.extends() && !now.Before(l.extendAt):
		if l.Terms.Progress > 0 && now.Sub(l.progress) >= l.Terms.Progress {
			l.extendAt = Never // the work hangs; later progress resumes the extensions
			return Nothing
		}
		return Extend
	}
	return Nothing
}

// extends reports whether the lease is extended automatically.
func (l *Lease) extends() bool { return l.Terms.AutoExtend && !l.stopped }

// Next returns the next instant at which Due returns an action that has not been returned yet. It is
// Never if there is none.
func (l *Lease) Next() clock.Instant {
	switch {
	case l.phase != held:
		return Never
	case l.lost:
		return l.endedAt
	}
	at := l.Ends()
	if at != Never && !l.stopped {
		at = at.Add(-l.Terms.StopMargin)
	}
	if l.missing != 0 && !l.stopped {
		at = l.began // it is due
	}
	if l.extends() {
		at = min(at, l.extendAt)
	}
	return at
}

// Extending records that an automatic extension is sent. Unless its outcome comes before, the next
// one is due after within.
func (l *Lease) Extending(now clock.Instant, within time.Duration) { l.extendAt = now.Add(within) }
