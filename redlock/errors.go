package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/pool/wire"
)

// The sentinels. Every error of this package matches one of them, or the cause of
// the caller's own context, by errors.Is.
var (
	// ErrHeld: another holds the name, or contenders split the votes (QuorumError.Split). Waiting helps.
	ErrHeld = errors.New("redlock: held by another")
	// ErrNoQuorum: too many nodes failed or did not answer for a quorum to say yes
	// or no. Waiting may help; it is worth an alarm.
	ErrNoQuorum = errors.New("redlock: no quorum of nodes could be reached")
	// ErrQuarantined: nodes that may have forgotten locks do not vote yet, and the others
	// are no quorum (WithRestartGuard). QuorumError.QuarantinedFor says for how long.
	ErrQuarantined = errors.New("redlock: nodes that may have forgotten locks are quarantined, and leave no quorum: wait, or for a fleet " +
		"that no client uses yet see redlock doctor --admit")
	// ErrNotAdmitted: Admit did not take all nodes in; the error says of each why, and what to do.
	ErrNotAdmitted = errors.New("redlock: not admitted")
	// ErrTooLate: a quorum granted, but with less validity left than asked for.
	ErrTooLate = errors.New("redlock: granted too late to be of use")
	// ErrLost: the lock's validity has ended, or a quorum no longer holds it.
	ErrLost = errors.New("redlock: the lock is lost")
	// ErrReleased: the handle was released.
	ErrReleased = errors.New("redlock: the lock was released")
	// ErrDetached: the handle was given up by Detach.
	ErrDetached = errors.New("redlock: the lock was detached")
	// ErrMaxHold: the lock was held for as long as WithMaxHold allows.
	ErrMaxHold = errors.New("redlock: the lock was held for its maximum time")
	// ErrAlreadyHeld: the acquiring context belongs to a lock that holds the name,
	// so that waiting would never end; or the claim to resume has a handle already.
	ErrAlreadyHeld = errors.New("redlock: already held here")
	// ErrClosed: the Locker was closed.
	ErrClosed = errors.New("redlock: the locker is closed")
	// ErrKeysLeft: Close returned before the keys of locks that have ended were deleted on
	// every node. The error says how many locks, and when the keys expire at the latest.
	ErrKeysLeft = errors.New("redlock: keys of ended locks are left to expire")
	// ErrInvalid: an argument or setting is out of its bounds; nothing was sent.
	ErrInvalid = errors.New("redlock: invalid argument")
)

// Errors of single nodes that callers may want to tell apart, by errors.Is on any
// error that carries votes.
var (
	// ErrForeignKey: the name's key holds a value that is no lock.
	ErrForeignKey = wire.ErrForeignKey
	// ErrNodeTimeout: a node did not answer within the node timeout. It never
	// matches context.DeadlineExceeded.
	ErrNodeTimeout = wire.ErrTimeout
	// ErrUnfit: a node does not vote because of what it is, or how it is set up, or
	// because it has answered three health checks in a row by errors. The
	// error names the node, what is wrong, and the cure; Diagnose tells of all.
	ErrUnfit = wire.ErrUnfit
	// ErrGuardMismatch: a node is guarded by clients with another restart guard than this
	// one: another list of nodes, another maxTTL, another name for the node; or this one has no
	// guard. The error says which, and what to do; it matches ErrUnfit, too. Waiting
	// does not cure it.
	ErrGuardMismatch = wire.ErrGuardMismatch
)

// errNotAwaited stands in a vote that was not in when the round was decided.
var errNotAwaited = errors.New("not waited for")

// Vote is what one node said.
type Vote struct {
	Node    string
	Outcome Outcome
	// Err says why, for Failed and Unknown; for Refused, a *HeldError where the
	// holder is known.
	Err error
	// Took is the time from the round's start to the answer. A grant that nobody
	// traces is not timed: reading the clock costs more than counting a vote.
	Took time.Duration
}

// Error prints the node and what it said.
func (v Vote) Error() string {
	if v.Err == nil {
		return v.Node + ": " + v.Outcome.String()
	}
	return v.Node + ": " + v.Outcome.String() + ": " + v.Err.Error()
}

// Unwrap gives the node's own error.
func (v Vote) Unwrap() error { return v.Err }

// HeldError says who holds a name on one node.
type HeldError struct {
	// Owner is the holder's label (WithOwner); empty when it has none.
	Owner string
	// Remaining is how long that node keeps the key unless it is released or extended;
	// negative when it never expires.
	Remaining time.Duration
}

// Error says who holds it and for how long.
func (e *HeldError) Error() string {
	who := "held"
	if e.Owner != "" {
		who = fmt.Sprintf("held by %q", e.Owner)
	}
	if e.Remaining < 0 {
		return who + " without an expiry"
	}
	return fmt.Sprintf("%s for %v more", who, e.Remaining.Round(time.Millisecond))
}

// QuorumError is a decision that went against the caller, with every node's vote.
// errors.Is finds the sentinel that it stands for and whatever the nodes said;
// printing it names each node.
type QuorumError struct {
	Op    string   // "acquire", "extend", "release", "check", "resume", "inspect" or "ping"
	Names []string // of the lock
	Need  int      // N/2+1
	Votes []Vote
	// Reason is ErrHeld, ErrNoQuorum, ErrQuarantined, ErrTooLate or ErrLost.
	Reason error
	// Split reports, for ErrHeld, a split vote: the votes do not show that another client holds the
	// lock, as where contenders got a part of the nodes each.
	Split bool
	// Expires is, for a release that could not be confirmed, how long the keys that
	// may be left live at most.
	Expires time.Duration
}

// Error names the operation, the lock, and what each node said.
func (e *QuorumError) Error() string {
	all := &multierror.Error{ErrorFormat: joinVotes}
	granted := 0
	for _, v := range e.Votes {
		if v.Outcome == OutcomeGranted {
			granted++
		}
		all = multierror.Append(all, v)
	}
	split := ""
	if e.Split {
		split = "split vote, "
	}
	op := e.Op
	if len(e.Names) > 0 {
		op += " " + quoted(e.Names)
	}
	return fmt.Sprintf("%v: %s: %s%d of %d votes, %d needed%s [%v]",
		e.Reason, op, split, granted, len(e.Votes), e.Need, e.expiry(), all)
}

func (e *QuorumError) expiry() string {
	if e.Expires <= 0 {
		return ""
	}
	return fmt.Sprintf("; what is left expires within %v", e.Expires)
}

// Is reports whether target is the reason.
func (e *QuorumError) Is(target error) bool { return e.Reason == target }

// Unwrap gives each node's error, so that errors.Is and errors.As reach them.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, 0, len(e.Votes))
	for _, v := range e.Votes {
		if v.Err != nil {
			errs = append(errs, v)
		}
	}
	return errs
}

func joinVotes(errs []error) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = oneline.Text(err)
	}
	return strings.Join(lines, "; ")
}

// LostError is a lock that ended before it was released.
type LostError struct {
	Names []string
	// For is how long ago it ended at the least: what the holder did in that time
	// may have overlapped with another holder.
	For time.Duration
}

// Error says since when.
func (e *LostError) Error() string {
	return fmt.Sprintf("%v: %s ended at least %v ago", ErrLost, quoted(e.Names), e.For.Round(time.Microsecond))
}

// Is matches ErrLost.
func (e *LostError) Is(target error) bool { return target == ErrLost }

// waitError is a call that ended by its context: it matches the context's
// cause and, by last, why the call had not succeeded until then (docs/hazards.md H84).
type waitError struct {
	op    string
	names []string
	cause error
	last  error
}

func (e *waitError) Error() string {
	return fmt.Sprintf("redlock: %s %s: %s; until then: %s", e.op, quoted(e.names), oneline.Text(e.cause), oneline.Text(e.last))
}

func (e *waitError) Unwrap() []error { return []error{e.cause, e.last} }

// withOp names an error after what the caller asked for, where the nodes were asked
// for something else.
func withOp(op string, err error) error {
	var we *waitError
	if errors.As(err, &we) {
		we.op = op
	}
	var qe *QuorumError
	if errors.As(err, &qe) {
		qe.Op = op
	}
	return err
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, slices.Insert(args, 0, any(ErrInvalid))...)
}

// invalids are all that is wrong with a call, under one ErrInvalid.
type invalids struct{ errs []error }

// joinInvalid joins errors that match ErrInvalid. It returns nil if there are none.
func joinInvalid(errs ...error) error {
	var all []error
	for _, err := range errs {
		if err == nil {
			continue
		}
		var more *invalids
		if errors.As(err, &more) {
			all = append(all, more.errs...)
		} else {
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

func quoted(names []string) string {
	if len(names) == 1 {
		return fmt.Sprintf("%q", names[0])
	}
	return fmt.Sprintf("%q", names)
}
