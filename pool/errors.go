package pool

import (
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Reasons why a command was not executed, or why that is unknown.
var (
	// ErrClosed reports that the node was closed.
	ErrClosed = server.ErrClosed
	// ErrReplyLimit is the error of a connection whose server sent a reply that is not RESP2, or that is
	// larger than any reply this package needs. The connection is closed, and the node is dialled again.
	ErrReplyLimit = resp.ErrLimit
	// ErrQueueFull reports that Config.Queue commands already wait to be written.
	ErrQueueFull = server.ErrQueueFull
	// ErrSilent reports that nothing was received for Config.HardTimeout while replies were due,
	// and that the connection was closed.
	ErrSilent = transport.ErrSilent
	// ErrDisconnected reports that the connection ended before the reply.
	ErrDisconnected = server.ErrDisconnected

	// ErrExpired reports that the command waited unsent until it could no longer be useful.
	ErrExpired = command.ErrExpired
	// ErrGivenUp reports that the other nodes decided the vote before the command was sent. It is
	// no failure of the node.
	ErrGivenUp = command.ErrGivenUp
)

// ServerError is an error reply of a server.
type ServerError struct {
	// Code is the first word of the reply: "LOADING", "READONLY", "ERR" and so on. It is empty if
	// that word is not in capital letters.
	Code string
	// Text is the reply: printable, at most 512 bytes, without the arguments of the command.
	Text string
}

// Error returns the server's text.
func (e *ServerError) Error() string { return e.Text }

func init() {
	resp.Public = func(e *resp.ServerError, target any) bool {
		public, ok := target.(**ServerError)
		if ok {
			*public = (*ServerError)(e)
		}
		return ok
	}
}

// QuarantineError reports that a healthy node does not vote yet, because the restart guard quarantines
// it.
type QuarantineError struct {
	Node string
	// Remaining is how much longer the quarantine lasts, from when the error was made.
	Remaining time.Duration
}

// Error returns the rest of the quarantine and its cause.
func (e *QuarantineError) Error() string {
	return fmt.Sprintf("quarantined for %v more: it was started, emptied or promoted, or is new", e.Remaining.Round(time.Millisecond))
}
