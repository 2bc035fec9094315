package cli

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
	ExitOK            = 0
	ExitFailed        = 1  // the demo failed, or the doctor found an error
	ExitUsage         = 64 // EX_USAGE
	ExitForeign       = 65 // EX_DATAERR: the key is not a lock
	ExitUnavailable   = 69 // EX_UNAVAILABLE: no quorum
	ExitSystem        = 71 // EX_OSERR: an error of this machine
	ExitLost          = 74 // EX_IOERR: the lock was lost
	ExitHeld          = 75 // EX_TEMPFAIL: another client holds it, or nodes are quarantined
	ExitConfig        = 78 // EX_CONFIG: the nodes are guarded for other clients
	ExitNotExecutable = 126
	ExitNotFound      = 127
	ExitSignal        = 128 // plus the signal's number
)

// Refusal returns the status for a lock that could not be acquired or inspected.
func Refusal(err error) int {
	var sig SignalError
	switch {
	case errors.As(err, &sig):
		return ExitSignal + int(sig.Signal)
	case errors.Is(err, redlock.ErrInvalid):
		return ExitUsage
	case IsGuardMismatch(err), isNotBegun(err):
		return ExitConfig
	case IsForeign(err):
		return ExitForeign // waiting does not help: a cron job would take 75 for a normal state
	case errors.Is(err, redlock.ErrHeld), errors.Is(err, redlock.ErrQuarantined):
		return ExitHeld // it ends by itself
	default: // ErrNoQuorum, ErrTooLate, or no decision in time
		return ExitUnavailable
	}
}

// IsGuardMismatch reports whether there is no quorum because nodes are guarded for other clients. That is
// a mistake in the settings, so waiting does not help.
func IsGuardMismatch(err error) bool { return guardMismatch(err) != nil }

// guardMismatch returns the answer of one of these nodes, or nil if there may be a quorum without them.
func guardMismatch(err error) (answer error) {
	var qe *redlock.QuorumError
	if !errors.As(err, &qe) {
		return nil
	}
	votes := 0
	for _, v := range qe.Votes {
		if errors.Is(v.Err, redlock.ErrGuardMismatch) {
			votes++
			answer = v.Err
		}
	}
	if votes <= len(qe.Votes)-qe.Need {
		return nil
	}
	return answer
}

// IsForeign reports whether keys that are not locks leave no quorum.
func IsForeign(err error) bool {
	var qe *redlock.QuorumError
	return errors.As(err, &qe) && errors.Is(qe.Reason, redlock.ErrForeignKey)
}

// Brief returns an error in a few words. The long form names every node's vote.
func Brief(err error) string {
	var held *redlock.HeldError
	var qe *redlock.QuorumError
	switch {
	case IsForeign(err):
		return "its key holds something that is not a lock"
	case IsGuardMismatch(err):
		return "no quorum: " + withFlags(WithoutPrefix(guardMismatch(err))) // the remedy is the same for all nodes
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
		return WithoutPrefix(err)
	}
}

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ syscall.Signal }

func (e SignalError) Error() string { return e.String() }

// Refused reports a lock that could not be acquired or inspected, and returns the status for it.
func (inv *Invocation) Refused(err error) int {
	if errors.Is(err, redlock.ErrInvalid) {
		return inv.Misused("%v", err)
	}
	if IsGuardMismatch(err) {
		inv.Fail(err, "%s", Brief(err))
	} else {
		inv.Fail(err, "%v", err)
	}
	return Refusal(err)
}
