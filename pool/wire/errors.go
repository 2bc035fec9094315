package wire

import "errors"

// Reasons in a reply that callers may want to tell apart.
var (
	// ErrForeignKey: the key holds something that is no lock (a list, a hash).
	// It refuses every acquire until somebody removes it (docs/hazards.md H44).
	ErrForeignKey = errors.New("the key holds a value that is no lock")
	// ErrTimeout: the node did not answer within the node timeout. It does not
	// match context.DeadlineExceeded: that is the caller's own deadline alone
	// (docs/hazards.md H111).
	ErrTimeout = errors.New("no answer within the node timeout")
	// ErrExpired: the command waited unsent until it was of no use any more.
	ErrExpired = errors.New("not sent in time")
	// ErrUnfit: something is wrong with the node, so that it does not vote. The error
	// names the node, what is wrong, and the cure.
	ErrUnfit = errors.New("the node is not fit to vote")
	// ErrGuardMismatch: the node is guarded, but by clients with another restart guard than
	// this one, which has another list of nodes, another maxTTL, another name for the node,
	// or none. Waiting cures that no more than any mistake in settings (docs/hazards.md H40, H112).
	ErrGuardMismatch = errors.New("the node's restart guard is not this client's")
	// ErrGivenUp: the attempt was decided before the command was sent.
	ErrGivenUp = errors.New("given up before it was sent")
)

// ServerError is an error that a server answered.
type ServerError struct {
	// Code is the reply's first word: "LOADING", "READONLY", "ERR", … It is empty where that is
	// not made of capital letters.
	Code string
	// Text is the reply: printable, at most 512 bytes, and without the command's arguments.
	Text string
}

// Error is the server's own text.
func (e *ServerError) Error() string { return e.Text }
