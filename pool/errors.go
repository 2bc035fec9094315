package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/pool/wire"
)

// Reasons why a command was not executed, or may have been.
var (
	// ErrQueueFull: Config.Queue commands wait to be written already.
	ErrQueueFull = errors.New("pool: the queue is full")
	// ErrSilent: nothing was heard for Config.HardTimeout while answers were due;
	// the connection was closed.
	ErrSilent = errors.New("pool: the connection fell silent and was closed")
	// ErrDisconnected: the connection ended before the answer came.
	ErrDisconnected = errors.New("pool: the connection ended before the answer came")

	// ErrUnfit: the node does not vote, because of what it is or how it is set up, or
	// because it has answered three health checks in a row by errors. The
	// error names the node, what is wrong, and the cure.
	ErrUnfit = wire.ErrUnfit
	// ErrGuardMismatch: the node is guarded by clients with another restart guard than this
	// one, or this one has none. It matches ErrUnfit too.
	ErrGuardMismatch = wire.ErrGuardMismatch

	errProtocol = errors.New("pool: the server sent a reply that nobody asked for")
)

// withoutContextError is an error that ended a connection or a dial, without the parts by
// which callers know their own deadline: a node's trouble must not look like
// that (docs/dev/hazards.md H111).
func withoutContextError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}

// noAnswerReason is why a command that was written got no answer.
func noAnswerReason(err error) error {
	if errors.Is(err, ErrSilent) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w (%s)", ErrDisconnected, err.Error())
}
