package reply

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// classify classifies an error reply. An error that is not the server's leaves open whether the
// command was executed.
func classify(err error) command.Reply {
	var re redis.Error
	if !errors.As(err, &re) {
		return command.Reply{Outcome: command.Unknown, Err: err}
	}
	// The text is cleaned first, so that no later use of the error can show a token.
	e := resp.Clean(re)
	switch {
	// A key of another type blocks the lock as a held key does: this is a vote, and not a fault.
	case resp.Code(e) == "WRONGTYPE":
		return command.Reply{Outcome: command.Refused, Err: command.ErrForeignKey}
	// Nothing was written, so there is nothing to undo on this node.
	case resp.Unexecuted(e), plainFailure(e.Error()):
		return command.Reply{Outcome: command.Failed, Err: e}
	}
	return command.Reply{Outcome: command.Unknown, Err: e}
}

// plainFailure reports whether an error without a code of its own surely came before anything was
// executed.
func plainFailure(text string) bool {
	for _, p := range []string{
		"ERR unknown command", "ERR redlock: ", "ERR invalid expire time", "ERR max number of clients",
		"ERR wrong number of arguments",
	} {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return deniedInScript(text)
}

// deniedInScript reports whether an error without a code says that the user may not do what a
// script tried. Redis 7 begins with this text, Redis 6 puts the position before it, and newer
// versions and Valkey word it differently.
func deniedInScript(text string) bool {
	return strings.Contains(text, "The user executing the script can't") || strings.Contains(text, "ACL failure in script")
}

// Denied reports whether an error says that the user lacks a permission, so that no
// retry helps. Servers send no code if a script does what the user may not.
func Denied(err error) bool {
	var se *resp.ServerError
	return errors.As(err, &se) && (se.Code == "NOPERM" || deniedInScript(se.Text))
}
