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

// failAll fails commands that left the queue unsent. It calls their owners, and so must not be called under a mutex.
func failAll(list []droppedCommand) {
	for _, d := range list {
		d.fail()
	}
}

func (d droppedCommand) fail() { d.command.Fail(d.why) }

// dropReason returns why a command that left the queue is not written: it expired, or its owner gave it up.
func dropReason(c *command.Command, now clock.Instant) error {
	if c.Expired(now) {
		return command.ErrExpired
	}
	return command.ErrGivenUp
}
