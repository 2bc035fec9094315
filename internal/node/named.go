package node

import (
	"strings"

	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// NamedError returns err with who named the address, and what to do if clients can't reach it. The reply of
// a server says enough by itself.
func NamedError(err error, who, address, cure string) error {
	if resp.IsServerError(err) {
		return err
	}
	if strings.Contains(err.Error(), address) {
		address = "this address"
	}
	return &door.NamedError{Err: err, Named: who + " named " + address + ": if clients can't reach it, " + cure}
}
