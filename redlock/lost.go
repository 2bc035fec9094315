package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// LossReason is why a lock ended under its holder, as a word for metrics and JSON.
type LossReason string

// The reasons.
const (
	// LossGone: so many nodes no longer have the lock's keys that no quorum can have them. The nodes
	// were restarted or emptied, or the keys were evicted, expired early, or were deleted by someone,
	// for example by redlock break. The nodes do not say which.
	LossGone LossReason = "gone"
	// LossNoQuorum: the lock was to be extended, and no quorum confirmed that in time.
	LossNoQuorum LossReason = "no_quorum"
	// LossPaused: this process did not run for more than a quarter of the validity, because the machine
	// was suspended, or because the process was stopped or got no processor time.
	LossPaused LossReason = "paused"
	// LossExpired: the validity ended, and nothing extended the lock (WithAutoExtend).
	LossExpired LossReason = "expired"
	// LossNoProgress: the work reported no progress, so the lock was not extended (WithProgress).
	LossNoProgress LossReason = "no_progress"
	// LossClosed: the Locker was closed, and the lock was not released in time.
	LossClosed LossReason = "closed"
	// LossMaxHold: the lock was held for as long as WithMaxHold allows. The error matches ErrMaxHold,
	// and not ErrLost.
	LossMaxHold LossReason = "max_hold"
)

// LostError reports that a lock ended under its holder, and why. It matches ErrLost or, if Reason is
// LossMaxHold, ErrMaxHold. It also matches every other LostError about the same end, and not the
// errors in Votes. A LostError does not change. A later one about the same end may know the holder.
type LostError struct {
	Names  []string // of the lock
	Reason LossReason
	// Votes are the answers that showed the loss, if Reason is LossGone, or those to the last extension,
	// if it is LossNoQuorum. Otherwise, or if no answer came in time, there may be none.
	Votes []Vote
	// Paused is how long this process did not run at least, up to the end of the lock. The log has the whole
	// pause. It is 0 unless Reason is LossPaused.
	Paused time.Duration
	// Confirmed is the wall clock's time before the request by which a quorum last confirmed the lock.
	Confirmed time.Time
	// Overlap is the longest time in which another client may have held a name of the lock, if the nodes
	// kept until Confirmed what they acknowledged: the time from then until the error was made. If they
	// kept it also afterwards, another client has held it for no longer than For.
	Overlap time.Duration
	// For is the least time since the lock ended. Work done in that time may have overlapped with
	// another holder's also if the nodes keep what they acknowledged.
	For time.Duration
	// Holder describes the client that held a name of the lock soon after its end, on a quorum of the
	// nodes. It is nil if there was none, or if that is not known.
	Holder *HeldError

	end *lockEnd
}

// lockEnd is the end of a lock under its holder. All errors about that end are made from it.
type lockEnd struct {
	reason                 LossReason
	votes                  []Vote
	paused                 time.Duration
	began, confirmed, over clock.Instant
	wall                   time.Time                 // at confirmed
	asks                   bool                      // the nodes are to be asked who holds the names now
	holder                 atomic.Pointer[HeldError] // nil until they have answered
}

// sameAs reports whether nothing was learned between two ends of a lock.
func (e *lockEnd) sameAs(later *lockEnd) bool {
	return e.reason == later.reason && e.confirmed == later.confirmed && e.over == later.over
}

// Error describes the lock and what ended it.
func (e *LostError) Error() string {
	return fmt.Sprintf("%v: %s: %s", e.sentinel(), quoted(e.Names), e.Why())
}

// Why describes what ended the lock, without its names: for a message that has them.
func (e *LostError) Why() string {
	why := []string{e.event()}
	if len(e.Votes) > 0 {
		votes := make([]error, len(e.Votes))
		for i, v := range e.Votes {
			var held *HeldError
			if e.Holder != nil && errors.As(v.Err, &held) && held.Owner == e.Holder.Owner && held.ID == e.Holder.ID {
				v.Err = nil // it is named once, behind the votes
			}
			votes[i] = voteError{v}
		}
		why[0] += " [" + oneline.Texts(votes) + "]"
	}
	if e.Holder != nil {
		why = append(why, "now "+e.Holder.Error())
	}
	if d := e.For.Round(time.Millisecond); d > 0 {
		why = append(why, fmt.Sprintf("it ended %v ago", d))
	}
	if e.Reason != LossMaxHold && e.Overlap > 0 {
		// Rounded up, because it is a bound.
		d := (e.Overlap + time.Millisecond - 1).Truncate(time.Millisecond)
		why = append(why, fmt.Sprintf("another client may have held it for up to %v", d))
	}
	return strings.Join(why, "; ")
}

// event describes what happened.
func (e *LostError) event() string {
	switch e.Reason {
	case LossGone:
		refused := 0
		for _, v := range e.Votes {
			if v.Outcome == OutcomeRefused {
				refused++
			}
		}
		return fmt.Sprintf("%d of %d nodes no longer hold it", refused, len(e.Votes))
	case LossNoQuorum:
		return "no quorum has confirmed it since " + e.Confirmed.UTC().Format("2006-01-02T15:04:05.000Z")
	case LossPaused:
		return fmt.Sprintf("this process did not run for %v", e.Paused.Round(time.Millisecond))
	case LossNoProgress:
		return "the work reported no progress, so nothing extended it"
	case LossClosed:
		return "the Locker was closed before the lock was released"
	case LossMaxHold:
		return "the time of WithMaxHold is over"
	}
	return "its validity is over, and nothing extended it"
}

// Is reports whether target is ErrLost, or ErrMaxHold, or another error about the same end.
func (e *LostError) Is(target error) bool {
	if same, ok := target.(*LostError); ok {
		return e.end != nil && e.end == same.end
	}
	return target == e.sentinel()
}

func (e *LostError) sentinel() error {
	if e.Reason == LossMaxHold {
		return ErrMaxHold
	}
	return ErrLost
}

// lossIn returns the loss that a cause is, or nil.
func lossIn(cause error) (lost *LostError) {
	errors.As(cause, &lost)
	return lost
}
