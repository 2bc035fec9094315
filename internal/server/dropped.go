package server

import (
	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// droppedCommand is a command that is not written, and the reason.
type droppedCommand struct {
	command *command.Command
	why     error
}

// fail answers the command. It calls its owner, and so must not be called under a mutex.
func (d droppedCommand) fail() { d.command.Fail(d.why) }

// dropReason returns why a command that left the queue is not written: it expired, or its owner gave it up.
func dropReason(c *command.Command, now clock.Instant) error {
	if c.Expired(now) {
		return command.ErrExpired
	}
	return command.ErrGivenUp
}
