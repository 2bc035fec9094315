package diagnose

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// cures has what to do about the errors of servers that let no connection in, by their codes.
var cures = []struct{ code, cure string }{
	{"NOAUTH", "put the user's password into the node's URL: redis://user:password@host, or redis://:password@host for the default user"},
	{"WRONGPASS", "correct the user and the password in the node's URL, or set them with ACL SETUSER"},
	{"DENIED", "give the server a password (requirepass or ACL SETUSER), or bind it to the address that its clients use"},
	{"LOADING", "it votes when it has loaded its data"},
}

// unreachable adds the finding about a node that could not be examined within timeout.
func (n *node) unreachable(err error, timeout time.Duration) {
	why := err.Error()
	switch {
	case strings.HasSuffix(why, "TLS handshake: context deadline exceeded"):
		why = fmt.Sprintf("no TLS handshake within %v: a server without TLS has a URL with redis:// and not rediss://", timeout)
	case errors.Is(err, command.ErrTimeout), strings.HasSuffix(why, "i/o timeout"), strings.HasSuffix(why, "context deadline exceeded"):
		why = fmt.Sprintf("no answer within %v: its process may be frozen or overloaded, or a firewall drops the packets: look at the process "+
			"(SIGCONT resumes one that was stopped), at its machine's load, and at SLOWLOG", timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "connection refused: no server listens there: start it, or correct the host and port in the node's URL (the server's settings " +
			"are bind and port)"
	default:
		for _, c := range cures {
			if strings.Contains(why, c.code+" ") {
				why = strings.TrimSuffix(why, ".") + ": " + c.cure
				break
			}
		}
	}
	n.add(doctor.Error, command.CodeUnreachable, "could not be examined: %s", why)
}
