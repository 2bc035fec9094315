package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/verdict"
	"github.com/quorumlock/go-redlock/internal/vote"
	"github.com/quorumlock/go-redlock/pool"
)

// Outcome is a node's vote.
type Outcome uint8

// The outcomes of a vote. Only OutcomeGranted counts towards a quorum.
const (
	OutcomeUnknown Outcome = iota // no answer in time: the command may have been executed
	OutcomeGranted                // executed
	OutcomeRefused                // held by another client, or not held by this token
	OutcomeFailed                 // not executed: unreachable, loading, not permitted, …
)

// String returns "unknown", "granted", "refused" or "failed".
func (o Outcome) String() string { return command.Outcome(o).String() }

// Vote is one node's answer.
type Vote struct {
	Node    string
	Outcome Outcome
	// Err is the reason if Outcome is Failed or Unknown. If it is Refused, Err is a *HeldError, as
	// far as the holder is known.
	Err error
	// Took is the time from the start of the round to the answer. It is 0 for most grants if the
	// Locker has neither a trace nor a logger, because reading the clock is costly.
	Took time.Duration
}

// notAwaited reports whether the attempt was decided before the node answered, other than by a
// timeout.
func (v *Vote) notAwaited() bool { return errors.Is(v.Err, vote.ErrNotAwaited) && v.Took == 0 }

// voteError is a vote as one of the errors of a QuorumError.
type voteError struct{ vote Vote }

// Error describes the node's answer.
func (e voteError) Error() string {
	text := e.vote.Node + ": " + e.vote.Outcome.String()
	if e.vote.Err != nil {
		text += ": " + e.vote.Err.Error()
	}
	return text
}

// Unwrap returns the node's own error.
func (e voteError) Unwrap() error { return e.vote.Err }

// HeldError describes the holder of a name on one node. Of several names it describes the one whose key
// that node keeps longest.
type HeldError struct {
	// Owner is the holder's label (WithOwner). It is empty if the holder has no label.
	Owner string
	// ID is the holder's Lock.ID. It is empty if the holder is a client of another library.
	ID string
	// Remaining is how long that node keeps the key unless it is released or extended. It is
	// negative if the key never expires.
	Remaining time.Duration

	here bool // the holder is a lock of the same Locker
}

// Error describes the holder and the remaining time.
func (e *HeldError) Error() string {
	text := "held"
	switch {
	case e.here:
		text = "held by this process"
	case e.Owner != "":
		text = fmt.Sprintf("held by %q", e.Owner)
	}
	if e.Remaining < 0 {
		text += " without an expiry"
	} else {
		text += fmt.Sprintf(" for %v more", e.Remaining.Round(time.Millisecond))
	}
	if e.ID != "" {
		text += fmt.Sprintf(" (id %s)", e.ID)
	}
	return text
}

// with returns the error with another remaining time. A hook may be reading the old one.
func (e *HeldError) with(remaining time.Duration) *HeldError {
	changed := *e
	changed.Remaining = remaining
	return &changed
}

// QuarantineError reports that a healthy node does not vote under the restart guard, and for how
// much longer.
type QuarantineError = pool.QuarantineError

// asHeldError describes why a node refuses: a key that is no lock, if there is one, because to wait
// is then useless; otherwise the key that is held for the longest. It returns nil if all are free.
func asHeldError(keys []command.KeyState) error {
	var longest *HeldError
	for _, k := range keys {
		switch {
		case k.ForeignType != "":
			return ErrForeignKey
		case k.Free():
		case longest == nil || command.Outlasts(k.TTL, longest.Remaining):
			longest = &HeldError{Owner: command.Owner(k.Value), ID: command.ID(k.Value), Remaining: k.TTL}
		}
	}
	if longest == nil {
		return nil
	}
	return longest
}

// quarantineLeft returns how much longer a failed node does not vote; verdict.NoExpiry if unknown.
func quarantineLeft(err error) time.Duration {
	var q *QuarantineError
	if errors.As(err, &q) && q.Remaining > 0 {
		return q.Remaining + quarantineSlack
	}
	return verdict.NoExpiry
}

// quarantineSlack is how long after a quarantine's end the next attempt is made.
const quarantineSlack = 5 * time.Millisecond
