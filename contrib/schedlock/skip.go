package schedlock

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// own is what a process itself does with a job that it could not lock.
type own struct {
	id      string        // of the lock of its last run; empty before the first one
	runs    bool          // that run has not ended
	minHold time.Duration // of the job
}

// skipped is why a tick is skipped, for the log and for the user.
type skipped struct {
	level      slog.Level
	because    string
	attributes []any // of the log entry
	err        error
	votes      error // what the log says only at level Debug; nil if the attributes have the error
}

// explain says why a tick is skipped, by the error of its acquisition. stopping reports that the
// scheduler ends the job.
func explain(err error, stopping bool, here own) skipped {
	var votes *redlock.QuorumError
	errors.As(err, &votes)
	held := holder(err, votes)
	mine := here.id != "" && held.ID == here.id
	whole := []any{"error", err}
	switch {
	case stopping:
		return skipped{level: slog.LevelInfo, because: "the scheduler is stopping", err: err}
	case votes != nil && blockedForever(votes):
		return skipped{slog.LevelError, "the lock's key has no expiry or is not a lock, so every tick is skipped until it is deleted", whole, err, nil}
	case !errors.Is(err, redlock.ErrHeld):
		return skipped{slog.LevelError, "no lock", whole, err, nil}
	case mine && here.runs:
		return skipped{level: slog.LevelInfo, because: "this process still runs the job", err: err, votes: err}
	case mine:
		left := held.Remaining.Round(time.Millisecond)
		return skipped{
			level:      slog.LevelWarn,
			because:    "the job's own minimum hold has not ended, which must be shorter than the interval",
			attributes: []any{"min_hold", here.minHold, "remaining", left},
			err:        fmt.Errorf("%w: %v of %v are left", ErrMinHold, left, here.minHold),
			votes:      err,
		}
	}
	if by := redlock.HeldBy(err); by != nil {
		return skipped{slog.LevelInfo, "the lock is held", attributes(*by), err, err}
	}
	return skipped{slog.LevelError, "no lock", whole, err, nil} // perhaps no process has it
}

// holder returns the holder that keeps the lock longest, as far as it is known.
func holder(err error, votes *redlock.QuorumError) (longest redlock.HeldError) {
	var held *redlock.HeldError
	if votes == nil {
		if errors.As(err, &held) {
			return *held
		}
		return longest
	}
	for _, v := range votes.Votes {
		if errors.As(v.Err, &held) && held.Remaining > longest.Remaining {
			longest = *held
		}
	}
	return longest
}

// attributes returns what a log entry says of a holder.
func attributes(of redlock.HeldError) (list []any) {
	if of.Owner != "" {
		list = append(list, "owner", of.Owner)
	}
	if of.Remaining > 0 {
		list = append(list, "remaining", of.Remaining.Round(time.Millisecond))
	}
	return list
}

// blockedForever reports whether keys that no release and no expiry removes leave no quorum.
func blockedForever(votes *redlock.QuorumError) bool {
	blocked := 0
	for _, v := range votes.Votes {
		var held *redlock.HeldError
		if errors.Is(v.Err, redlock.ErrForeignKey) || errors.As(v.Err, &held) && held.Remaining < 0 {
			blocked++
		}
	}
	return blocked > len(votes.Votes)-votes.Need
}
