package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-multierror"

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

// QuorumError reports a decision against the caller, with every node's vote. errors.Is matches
// Reason and the errors of the nodes. Of more than five votes the text has five.
type QuorumError struct {
	Op    string   // "acquire", "extend", "release", "check", "resume", "inspect" or "ping"
	Names []string // of the lock
	Need  int      // N/2+1
	Votes []Vote
	// Reason is ErrHeld, ErrForeignKey, ErrNoQuorum, ErrQuarantined, ErrTooLate or ErrLost.
	Reason error
	// Split reports, if Reason is ErrHeld, that the votes do not show that another client holds the
	// lock. Contenders may have got a part of the nodes each.
	Split bool
	// Expires bounds, for a release that could not be confirmed, how long leftover keys remain.
	Expires time.Duration
}

// Error describes the operation, the lock and the nodes' answers.
func (e *QuorumError) Error() string {
	var refusing, granting []Vote
	for _, v := range e.Votes {
		if v.Outcome == OutcomeGranted {
			granting = append(granting, v)
		} else {
			refusing = append(refusing, v)
		}
	}
	shown := e.Votes
	if _, more := oneline.Few(shown); more != "" { // then those that explain the decision come first
		shown = slices.Concat(refusing, granting)
	}
	all := &multierror.Error{ErrorFormat: oneline.Texts}
	for _, v := range shown {
		all = multierror.Append(all, voteError{v})
	}
	split := ""
	if e.Split {
		split = "split vote, "
	}
	op := e.Op
	if len(e.Names) > 0 {
		op += " " + quoted(e.Names)
	}
	return fmt.Sprintf("%s: %s: %s%d of %d votes, %d needed%s [%v]",
		e.reason(), op, split, len(granting), len(e.Votes), e.Need, e.expiry(), all)
}

// reason returns the text of the reason.
func (e *QuorumError) reason() string {
	switch {
	case errors.Is(e.Reason, ErrForeignKey):
		return "redlock: " + e.Reason.Error()
	case errors.Is(e.Reason, ErrHeld) && e.heldHere():
		return "redlock: held by this process"
	}
	return fmt.Sprint(e.Reason)
}

// heldHere reports whether a lock of the same Locker holds the names.
func (e *QuorumError) heldHere() bool {
	return slices.ContainsFunc(e.Votes, func(v Vote) bool {
		var held *HeldError
		return errors.As(v.Err, &held) && held.here
	})
}

func (e *QuorumError) expiry() string {
	if e.Expires <= 0 {
		return ""
	}
	return fmt.Sprintf("; leftover keys expire within %v", e.Expires)
}

// Unwrap returns Reason and each node's error, so that errors.Is and errors.As find them.
func (e *QuorumError) Unwrap() []error {
	errs := make([]error, 1, 1+len(e.Votes))
	errs[0] = e.Reason
	for _, v := range e.Votes {
		if v.Err != nil {
			errs = append(errs, voteError{v})
		}
	}
	return errs
}

// HeldBy returns the client that keeps an acquisition from the lock: the holder whose keys the error shows on a quorum of
// the nodes, or the lock of this process for which the call was queued. Otherwise it returns nil, also for some errors that
// match ErrHeld: contenders have split the votes, keys of several clients that have crashed block the name, a key never
// expires, or not enough nodes have told the holder, as when others were faster at the end of a wait. Then perhaps no
// client works.
//
// So a job that one of many machines runs is skipped without an alarm only if HeldBy names the one that runs it. Of several
// names, that client may hold only one. Clients of other libraries, whose locks have no ID, count as one. An error of Do
// may come from the function, and be about another name: see QuorumError.Names.
func HeldBy(err error) *HeldError {
	var we *waitError
	for errors.As(err, &we) {
		err = we.last // the cause of the context may be another lock's error
	}
	var qe *QuorumError
	var here *HeldError
	switch {
	case !errors.As(err, &qe): // the call was queued
		errors.As(err, &here)
		return here
	case !errors.Is(qe.Reason, ErrHeld), qe.Split:
		return nil
	}
	copies := make(map[string]int) // by Lock.ID
	for _, v := range qe.Votes {
		var held *HeldError
		if !errors.As(v.Err, &held) || held.Remaining < 0 {
			continue
		}
		if copies[held.ID]++; copies[held.ID] == qe.Need {
			return held
		}
	}
	return nil
}

// waitError reports a call that its context ended. It matches the context's cause and last, which
// is why the call had not succeeded until then (docs/dev/hazards.md H84).
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

// queuedError is why an acquisition has made no attempt: other requests of its Locker were ahead. It matches
// ErrHeld.
type queuedError struct {
	held  *HeldError    // the lock of this process that holds the name; nil if none does
	since time.Duration // for how long it has done so
}

func (e *queuedError) Error() string {
	if e.held == nil {
		return "redlock: queued after other requests of this process"
	}
	return fmt.Sprintf("redlock: held by this process (id %s, for %v)", e.held.ID, e.since.Round(time.Millisecond))
}

func (e *queuedError) Is(target error) bool { return target == ErrHeld }

func (e *queuedError) Unwrap() error {
	if e.held == nil {
		return nil
	}
	return e.held
}

// withOp sets the operation in err to what the caller asked for, where the nodes executed another
// one.
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
