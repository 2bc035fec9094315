package server

import (
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/transport"
)

// Reasons why a command was not executed, or why that is unknown.
var (
	ErrClosed       = errors.New("pool: node is closed")
	ErrQueueFull    = errors.New("pool: queue is full")
	ErrDisconnected = errors.New("pool: connection closed before the reply")
	// ErrRetired reports that a retired server takes no commands.
	ErrRetired = errors.New("pool: node is no longer a cluster master")

	// ErrConnecting is the reason of a server whose dial may still succeed.
	ErrConnecting = errors.New("pool: connecting")

	errRoleChanged = errors.New("pool: server changed identity or role; reconnecting")
)

// noAnswerReason returns why a written command got no reply.
func noAnswerReason(err error) error {
	if errors.Is(err, transport.ErrSilent) || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w (%s)", ErrDisconnected, err.Error())
}
