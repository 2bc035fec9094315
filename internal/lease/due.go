package lease

import "github.com/quorumlock/go-redlock/clock"

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

// Due returns what is due at an instant. An extension is due once: the next one is when its outcome
// says, or after the patience. After EndContext nothing extends the lease any more.
func (l *Lease) Due(now clock.Instant) Action {
	switch {
	case !l.Held():
		return Nothing
	case !l.Valid(now):
		return End
	case l.Over(now):
		l.stopped = true
		return EndContext
	case l.stopped:
		return Nothing
	case l.missing != 0:
		return Repair
	case !l.Terms.AutoExtend || now.Before(l.extendAt):
		return Nothing
	case l.Terms.Progress > 0 && now.Sub(l.progress) >= l.Terms.Progress:
		l.extendAt = Never // the work hangs; later progress resumes the extensions
		return Nothing
	}
	l.extendAt = now.Add(l.Terms.Patience)
	return Extend
}

// Over reports whether the lease or its context has ended, or is to end now.
func (l *Lease) Over(now clock.Instant) bool { return !l.Valid(now.Add(l.Terms.StopMargin)) }

// Next returns the next instant at which Due returns an action that has not been returned yet. It is
// Never if there is none.
func (l *Lease) Next() clock.Instant {
	at := l.Ends().Add(-l.Terms.StopMargin)
	switch {
	case !l.Held():
		return Never
	case l.stopped:
		return l.Ends()
	case l.missing != 0:
		return l.began // it is due
	case l.Terms.AutoExtend:
		return min(at, l.extendAt)
	}
	return at
}
