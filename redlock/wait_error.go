package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

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
// one. It does not look into the cause of a context, which is the caller's.
func withOp(op string, err error) error {
	of := err
	var we *waitError
	if errors.As(err, &we) {
		we.op, of = op, we.last
	}
	var qe *QuorumError
	if errors.As(of, &qe) {
		qe.Op = op
	}
	return err
}
