package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// Exit statuses: those of sysexits.h where it has a fitting one, and a shell's.
const (
	exitOK            = 0
	exitFailed        = 1  // the demo failed, or the doctor found an error
	exitUsage         = 64 // EX_USAGE
	exitForeign       = 65 // EX_DATAERR: the key is not a lock
	exitUnavailable   = 69 // EX_UNAVAILABLE: no quorum
	exitSystem        = 71 // EX_OSERR: an error of this machine
	exitLost          = 74 // EX_IOERR: the lock was lost
	exitHeld          = 75 // EX_TEMPFAIL: another client holds it, or nodes are quarantined
	exitConfig        = 78 // EX_CONFIG: the nodes are guarded for other clients
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // plus the signal's number
)

// refusal returns the status for a lock that could not be acquired or inspected.
func refusal(err error) int {
	var sig signalError
	switch {
	case errors.As(err, &sig):
		return exitSignal + int(sig.Signal)
	case errors.Is(err, redlock.ErrInvalid):
		return exitUsage
	case notForUs(err), isNotBegun(err):
		return exitConfig
	case isForeign(err):
		return exitForeign // waiting does not help: a cron job would take 75 for a normal state
	case errors.Is(err, redlock.ErrHeld), errors.Is(err, redlock.ErrQuarantined):
		return exitHeld // it ends by itself
	default: // ErrNoQuorum, ErrTooLate, or no decision in time
		return exitUnavailable
	}
}

// notForUs reports whether there is no quorum because nodes are guarded for other clients. That is
// a mistake in the settings, so waiting does not help.
func notForUs(err error) bool {
	var qe *redlock.QuorumError
	if !errors.As(err, &qe) {
		return false
	}
	votes := 0
	for _, v := range qe.Votes {
		if errors.Is(v.Err, redlock.ErrGuardMismatch) {
			votes++
		}
	}
	return votes > len(qe.Votes)-qe.Need
}

// isForeign reports whether keys that are not locks leave no quorum.
func isForeign(err error) bool {
	var qe *redlock.QuorumError
	return errors.As(err, &qe) && errors.Is(qe.Reason, redlock.ErrForeignKey)
}

// inShort returns an error in a few words. The long form names every node's vote.
func inShort(err error) string {
	var held *redlock.HeldError
	var qe *redlock.QuorumError
	switch {
	case isForeign(err):
		return "its key holds something that is not a lock"
	case errors.As(err, &qe) && qe.Split:
		return "split vote: other clients tried at the same time"
	case errors.As(err, &held):
		return held.Error()
	case errors.Is(err, redlock.ErrHeld):
		return "held elsewhere"
	case errors.Is(err, redlock.ErrQuarantined) && errors.As(err, &qe):
		return fmt.Sprintf("no quorum: nodes are quarantined after a restart, for %v more (new deployment: see redlock doctor --admit)", qe.QuarantinedFor().Round(time.Millisecond))
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redlock.ErrNoQuorum):
		return "no answer within the time given"
	default:
		return withoutPrefix(err)
	}
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return e.String() }
