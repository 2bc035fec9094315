package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// Reasons why a command was not executed, or why that is unknown.
var (
	// ErrQueueFull reports that Config.Queue commands already wait to be written.
	ErrQueueFull = errors.New("pool: queue is full")
	// ErrSilent reports that nothing was received for Config.HardTimeout while replies were due,
	// and that the connection was closed.
	ErrSilent = errors.New("pool: connection closed: no reply within the hard timeout")
	// ErrDisconnected reports that the connection ended before the reply.
	ErrDisconnected = errors.New("pool: connection closed before the reply")

	// ErrUnfit reports that the node does not vote, because of its role or configuration, or
	// because it has answered three health checks in a row by errors. The error names the node,
	// the problem and the remedy.
	ErrUnfit = wire.ErrUnfit
	// ErrGuardMismatch reports that the node is guarded by clients with another restart guard
	// than this one, or that this one has none. It also matches ErrUnfit.
	ErrGuardMismatch = wire.ErrGuardMismatch

	errProtocol = errors.New("pool: unexpected reply without a command")
)

// withoutContextError strips context errors from an error that ended a connection or a dial.
// Callers identify their own deadline by them, and a fault of a node must not match
// (docs/dev/hazards.md H111).
func withoutContextError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}

// noAnswerReason returns why a written command got no reply.
func noAnswerReason(err error) error {
	if errors.Is(err, ErrSilent) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w (%s)", ErrDisconnected, err.Error())
}
