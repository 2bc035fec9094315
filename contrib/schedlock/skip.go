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
	runs    bool          // it runs the job
	minHold time.Duration // of the job
	left    time.Duration // of the minimum hold of its last run; 0 if that has ended
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
	whole := []any{"error", err}
	switch {
	case stopping:
		return skipped{level: slog.LevelInfo, because: "the scheduler is stopping", err: err}
	case votes != nil && blockedForever(votes):
		return skipped{slog.LevelError, "the lock's key has no expiry or is not a lock, so every tick is skipped until it is deleted", whole, err, nil}
	case !errors.Is(err, redlock.ErrHeld):
		return skipped{slog.LevelError, "no lock", whole, err, nil}
	case here.runs:
		return skipped{level: slog.LevelInfo, because: "this process still runs the job", err: err, votes: err}
	case here.left > 0:
		left := here.left.Round(time.Millisecond)
		return skipped{
			level:      slog.LevelWarn,
			because:    "the job's own minimum hold has not ended, which must be shorter than the interval",
			attributes: []any{"min_hold", here.minHold, "remaining", left},
			err:        fmt.Errorf("%w: %v of %v are left", ErrMinHold, left, here.minHold),
			votes:      err,
		}
	case votes != nil && votes.Split: // perhaps no process has the lock
		return skipped{slog.LevelError, "no lock", whole, err, nil}
	}
	return skipped{slog.LevelInfo, "the lock is held", holder(votes), err, err}
}

// holder returns the owner of the lock and how long the nodes keep it, as far as they said it.
func holder(votes *redlock.QuorumError) (attributes []any) {
	var longest redlock.HeldError
	if votes != nil {
		for _, v := range votes.Votes {
			var held *redlock.HeldError
			if errors.As(v.Err, &held) && held.Remaining > longest.Remaining {
				longest = *held
			}
		}
	}
	if longest.Owner != "" {
		attributes = append(attributes, "owner", longest.Owner)
	}
	if longest.Remaining > 0 {
		attributes = append(attributes, "remaining", longest.Remaining.Round(time.Millisecond))
	}
	return attributes
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
