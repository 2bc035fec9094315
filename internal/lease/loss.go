package lease

import (
	"time"

	"github.com/quorumlock/go-redlock/clock"
)

// Loss is why a lease ends although its holder did not end it.
type Loss uint8

// The reasons of a loss.
const (
	Expired    Loss = iota // nothing extended it
	Gone                   // so many nodes no longer hold the token that no quorum can
	NoQuorum               // no quorum confirmed an extension in time
	Paused                 // the process did not run
	NoProgress             // the work reported no progress, so nothing extended it
	Closed                 // the Locker was closed, so nothing extended it
	MaxHold                // it was held for as long as MaxHold allows
)

// String returns the reason as a word for programs.
func (l Loss) String() string {
	return [...]string{"expired", "gone", "no_quorum", "paused", "no_progress", "closed", "max_hold"}[l]
}

// Loss returns why the lease ends under its holder. It is the last of the events without which a
// quorum could have confirmed the lock again. from and until bound the last time in which the process
// did not run. Both are 0 if there was none.
func (l *Lease) Loss(from, until clock.Instant) Loss {
	switch {
	case l.phase == lost:
		return Gone
	case l.EndsByMaxHold():
		return MaxHold
	case l.closed:
		return Closed
	case l.Terms.AutoExtend && l.extendAt == Never: // see Due
		return NoProgress
	case until.After(max(l.confirmed, l.asked)) && LongPause(until.Sub(from), l.until.Sub(l.confirmed)):
		return Paused
	case l.asked.After(l.confirmed):
		return NoQuorum
	}
	return Expired
}

// LongPause reports whether a pause of the process may cost a lock of that validity. An automatic
// extension has two thirds of the validity to succeed, in several attempts.
func LongPause(pause, validity time.Duration) bool { return pause > validity/4 }

// Confirmed returns the start of the last round in which a quorum confirmed the lock. Each node of
// that quorum held the token at some instant after it, so no other client held the lock before it.
func (l *Lease) Confirmed() clock.Instant { return l.confirmed }
