package transport

import (
	"context"
	"errors"
)

// ErrSilent is the end of a connection whose peer is silent. Users know it as that of package pool.
var ErrSilent = errors.New("pool: connection closed: no reply within the hard timeout")

// ErrOutOfStep is the end of a connection whose peer sent more replies than were due.
var ErrOutOfStep = errors.New("pool: unexpected reply without a command")

// DialError is a failure to dial. It matches no error of a context, even if the library's
// own dial timeout was the reason: the caller would mistake it for its own deadline, and give up
// (docs/dev/hazards.md H111). errors.Is and errors.As reach all other causes.
type DialError struct {
	Text  string // without passwords
	Cause error
}

// Error returns the text without passwords.
func (e DialError) Error() string { return e.Text }

// Unwrap returns the cause, for errors.Is. Its text is not shown.
func (e DialError) Unwrap() error { return e.Cause }

// WithoutContext strips context errors from an error that ended a connection or a dial. Callers identify their own deadline
// by them, and a fault of a server must not match (docs/dev/hazards.md H111).
func WithoutContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}
