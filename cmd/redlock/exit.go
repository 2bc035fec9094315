package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// Exit statuses: those of sysexits.h where it has a fitting one, and a shell's.
const (
	exitOK            = 0
	exitFailed        = 1  // the demo: something went wrong; the doctor: something is
	exitUsage         = 64 // EX_USAGE
	exitUnavailable   = 69 // EX_UNAVAILABLE: no quorum
	exitSystem        = 71 // EX_OSERR: this machine could not do it
	exitLost          = 74 // EX_IOERR: the lock was lost under way
	exitHeld          = 75 // EX_TEMPFAIL: somebody else holds it, or nodes are quarantined
	exitConfig        = 78 // EX_CONFIG: the nodes are guarded, and not for us
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the signal's number
)

// refusal is the status of a lock that could not be had, or looked at.
func refusal(err error) int {
	var sig signalError
	switch {
	case errors.As(err, &sig):
		return exitSignal + int(sig.Signal)
	case errors.Is(err, redlock.ErrInvalid):
		return exitUsage
	case notForUs(err), isNotBegun(err):
		return exitConfig
	case errors.Is(err, redlock.ErrForeignKey):
		// Waiting would not help: 75 would tell a cron job that all is well.
		return exitUnavailable
	case errors.Is(err, redlock.ErrHeld), errors.Is(err, redlock.ErrQuarantined):
		return exitHeld // it passes by itself
	default: // ErrNoQuorum, ErrTooLate, or not decided in the time given
		return exitUnavailable
	}
}

// notForUs reports whether the nodes that are guarded for others are why there is no
// quorum: a mistake in somebody's settings, which no waiting cures.
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

// inShort is an error in a few words, where the long form names every node's vote.
func inShort(err error) string {
	var held *redlock.HeldError
	var qe *redlock.QuorumError
	switch {
	case errors.Is(err, redlock.ErrForeignKey):
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
		return err.Error()
	}
}

// signalError is the end by a signal of a wait, as the cause of a context.
type signalError struct{ syscall.Signal }

func (e signalError) Error() string { return e.String() }

// isTrue reads a variable as most programs do: set and not empty.
func isTrue(value string) bool { return strings.TrimSpace(value) != "" }
