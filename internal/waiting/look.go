package waiting

import "github.com/quorumlock/go-redlock/clock"

// Reason is why a waiter continues. Larger reasons take precedence.
type Reason uint8

// The reasons.
const (
	none           Reason = iota
	byRest                // its rest is over; not reported
	byAnswer              // a poll was answered; not reported
	ByPoll                // a poll found that an attempt can succeed, or the pause is over
	ByExpiry              // the holder's keys have expired
	BySubscription        // announcements are received from now on
	ByMessage             // a release was announced
	ByHandoff             // a lock of this process ended
)

// String returns the reason as hooks receive it.
func (r Reason) String() string {
	return [...]string{"none", "none", "none", "poll", "expiry", "subscription", "message", "handoff"}[r]
}

// step is what a waiter does next.
type step uint8

const (
	sleeps    step = iota // until something happens
	polls                 // it queries whether the keys remain
	concludes             // it looks at the answers
	tries                 // it makes an attempt, unless others go first
)

// look is what a waiter waits for. It decides when the waiter continues, and with which step. It has no clock and
// starts nothing: the Waiter does. An announcement may change it while the waiter sleeps.
type look struct {
	queued   bool // behind others of this process: only a handoff ends the wait
	held     bool // the names are held: a release ends the wait, or the expiry of the keys
	told     bool // it is told of releases, so at the end of the pause it only polls
	polling  bool // it waits for the answers to a poll
	renewing bool // the holder extends the keys, so their expiry is no reason to try

	expiry clock.Instant // when enough keys expire; never: unknown
	until  clock.Instant // the end of the pause, or of the poll
	why    Reason        // at that time

	due   clock.Instant // when it tries after a release; 0: none is planned
	quiet clock.Instant // until then it does not try after a release, because it did so in vain
	rest  clock.Instant // until then it does not listen; 0: it does
}

// pause makes the waiter sleep until an instant.
func (l *look) pause(until clock.Instant, why Reason) {
	l.queued, l.told, l.polling, l.until, l.why = false, false, false, until, why
}

// listen makes it sleep until a release, and poll at an instant.
func (l *look) listen(until clock.Instant) {
	l.pause(until, ByPoll)
	l.told = true
}

// poll makes it sleep until answers.
func (l *look) poll(until clock.Instant) {
	l.pause(until, byAnswer)
	l.told, l.polling = true, true
}

// plan plans an attempt after a release, in place of another one or of a rest; 0: none.
func (l *look) plan(at clock.Instant) {
	if at != 0 {
		at, l.told = max(at, l.quiet), true
	}
	l.due, l.rest = at, 0
}

// released forgets when the keys expire: their holder has released them, and those of its successor are unknown.
func (l *look) released() { l.expiry = never }

// yields reports that others go first until a time, also if the waiter hears of their releases from now on.
func (l *look) yields() bool { return l.why == ByMessage }

// ignore puts off attempts after releases.
func (l *look) ignore(until clock.Instant) {
	if l.quiet = until; l.due != 0 {
		l.plan(l.due)
	}
}

// next returns when the waiter continues if nothing happens before, and why. An attempt after a release is not made
// before grace.
func (l *look) next(grace clock.Instant) (at clock.Instant, why Reason) {
	if l.queued {
		return never, none
	}
	at, why = l.until, l.why
	if l.expiry < at && !l.renewing {
		at, why = l.expiry, ByExpiry
	}
	if due := max(l.due, grace); l.due != 0 && due <= at {
		at, why = due, ByMessage
	}
	if l.rest != 0 && l.rest <= at {
		at, why = l.rest, byRest
	}
	return at, why
}

// after returns the step that follows. told reports whether the waiter is told of releases now.
func (l *look) after(why Reason, told bool) step {
	switch {
	case why <= byRest:
		return sleeps
	case l.queued || why > BySubscription:
		return tries
	case l.polling:
		return concludes
	case told && l.told && why != ByExpiry, told && l.held && why == BySubscription:
		return polls // a release may have been missed
	}
	return tries
}

// answered returns the step that follows a poll. If the names are not free they may be at expiry, and the next poll
// is at next. If keys no longer expire they may not be those of a lock: an attempt finds out.
func (l *look) answered(free bool, expiry, next clock.Instant) step {
	if free || expiry == never && l.expiry != never {
		return tries
	}
	l.expiry = expiry
	l.listen(next)
	return sleeps
}
