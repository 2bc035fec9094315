package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Errors of this package. Every error that it returns matches one of them, or the cause of the
// caller's own context, by errors.Is.
var (
	// ErrHeld reports that another client holds the name, or another lock of this process, or that
	// contenders split the votes (QuorumError.Split). HeldBy tells a holder from a split vote. Waiting helps.
	ErrHeld = errors.New("redlock: held by another client")
	// ErrNoQuorum reports that too many nodes failed or did not answer for a quorum to grant or
	// refuse. Waiting may help. It deserves an alert.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes could be reached")
	// ErrQuarantined reports that nodes that may have forgotten locks do not vote yet, and that the
	// other nodes are not a quorum (WithRestartGuard). See QuorumError.QuarantinedFor.
	ErrQuarantined = errors.New("redlock: no quorum: nodes are quarantined after a restart " +
		"(new deployment: see redlock doctor --admit)")
	// ErrTooLate reports that a quorum granted the lock with too little validity left.
	ErrTooLate = errors.New("redlock: granted with too little validity left")
	// ErrLost reports that the lock's validity has ended, or that a quorum no longer holds it. A
	// *LostError has the reason.
	ErrLost = errors.New("redlock: lock lost")
	// ErrReleased reports that the handle was released.
	ErrReleased = errors.New("redlock: lock released")
	// ErrDetached reports that the handle was given up by Detach.
	ErrDetached = errors.New("redlock: lock detached")
	// ErrMaxHold reports that the lock was held for as long as WithMaxHold allows.
	ErrMaxHold = errors.New("redlock: lock held for its maximum time")
	// ErrAlreadyHeld reports that the caller's context belongs to a lock that holds the name, so
	// waiting would never end. From Resume it reports that the claim already has a handle.
	ErrAlreadyHeld = errors.New("redlock: already held here")
	// ErrClosed reports that the Locker is closed.
	ErrClosed = errors.New("redlock: locker closed")
	// ErrKeysLeft reports that Close returned before the keys of ended locks were deleted on every
	// node. The error states how many locks, and when the last key expires at the latest.
	ErrKeysLeft = errors.New("redlock: keys of ended locks were not deleted and will expire by TTL")
	// ErrInvalid reports that an argument or option is out of bounds. Nothing was sent.
	ErrInvalid = errors.New("redlock: invalid argument")
)

// Errors of single nodes. Callers can distinguish them by errors.Is on any error that carries
// votes.
var (
	// ErrForeignKey reports that the name's key holds a value that is not a lock.
	ErrForeignKey = command.ErrForeignKey
	// ErrNodeTimeout reports that a node did not answer within the node timeout. It never matches
	// context.DeadlineExceeded.
	ErrNodeTimeout = command.ErrTimeout
	// ErrUnfit reports that a node does not vote because of its role or its settings, or because it
	// answered its last health check with an error. The error states the node, the reason
	// and the cure. Package doctor reports all of them.
	ErrUnfit = command.ErrUnfit
	// ErrGuardMismatch reports that a node's restart guard differs from this client's: another list
	// of nodes, another maxTTL, another name for the node, or this client has no guard. The error
	// states the difference and what to do, and also matches ErrUnfit. Waiting does not help.
	ErrGuardMismatch = command.ErrGuardMismatch
)

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, slices.Insert(args, 0, any(ErrInvalid))...)
}

// invalids joins several errors of one call under one ErrInvalid.
type invalids struct{ errs []error }

// joinInvalid joins errors that match ErrInvalid. It returns nil if there are none.
func joinInvalid(errs ...error) error {
	var all []error
	for _, err := range errs { // they stay on the stack
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &invalids{all}
}

func (e *invalids) Error() string {
	prefix := ErrInvalid.Error() + ": "
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = strings.TrimPrefix(oneline.Text(err), prefix)
	}
	return prefix + strings.Join(texts, "; ")
}

func (e *invalids) Unwrap() []error { return e.errs }

// quoted returns a few of several names for a text.
func quoted(names []string) string { return oneline.Quoted(names) }

func closedError(names []string) error { return fmt.Errorf("%w: %s", ErrClosed, quoted(names)) }

// errNoAttempt is the reason in the error of a call whose context ended before anything was sent.
var errNoAttempt = errors.New("no attempt was made")

var errNoNodes = invalid("no nodes: at least one is needed, usually 3 or 5")
