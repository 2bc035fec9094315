package examine

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
)

// cures has what to do about the errors of servers that let no connection in, by their codes.
var cures = []struct{ code, cure string }{
	{"NOAUTH", "put the user's password into the node's URL: redis://user:password@host, or redis://:password@host for the default user"},
	{"WRONGPASS", "correct the user and the password in the node's URL, or set them with ACL SETUSER"},
	{"DENIED", "give the server a password (requirepass or ACL SETUSER), or bind it to the address that its clients use"},
	{"BUSY", "SCRIPT KILL ends the script, unless it has written"},
	{"LOADING", "it votes when it has loaded its data"},
}

// Unreachable returns the finding about a node, or a server of it, that could not be examined within a
// time.
func Unreachable(node string, err error, within time.Duration) Finding {
	var by *named.Error
	isNamed := errors.As(err, &by)
	if isNamed {
		err = by.Err
	}
	why := unreachableReason(err, isNamed, within)
	if isNamed {
		why += "; " + by.Named
	}
	return finding(Error, codeUnreachable, "%s could not be examined: %s", node, why)
}

// unreachableReason returns what is wrong, and the cure. The URL is not to be corrected if other servers
// named the address.
func unreachableReason(err error, named bool, within time.Duration) string {
	why := err.Error()
	switch {
	case errors.Is(err, command.ErrTimeout), strings.HasSuffix(why, "i/o timeout"), strings.HasSuffix(why, "context deadline exceeded"):
		return fmt.Sprintf("no answer within %v: its process may be frozen or overloaded, or a firewall drops the packets: look at the process "+
			"(SIGCONT resumes one that was stopped), at its machine's load, and at SLOWLOG", within)
	case errors.Is(err, syscall.ECONNREFUSED) && named:
		return "connection refused: no server listens there: start it"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: no server listens there: start it, or correct the host and port in the node's URL (the server's settings " +
			"are bind and port)"
	}
	if errors.Is(err, command.ErrUnfit) { // no majority of its Sentinels names a master: the server was not asked
		if strings.Contains(why, "NOAUTH ") || strings.Contains(why, "WRONGPASS ") {
			why += ": set sentinel_user and sentinel_password in the node's URL"
		}
		return why
	}
	for _, c := range cures {
		if strings.Contains(why, c.code+" ") {
			return strings.TrimSuffix(why, ".") + ": " + c.cure
		}
	}
	return why
}
