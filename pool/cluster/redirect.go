package cluster

import (
	"net"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
)

// redirection is what a member says of the owner of a slot.
type redirection struct {
	asking  bool // ASK: the slot is still being moved
	slot    int
	address string // empty if it is no redirection
}

// parseRedirection parses "MOVED slot host:port" and ASK from the member at address from. Without a
// host it is the same one. The address is empty if the text is neither.
func parseRedirection(text, from string) redirection {
	// The text comes from a server, so nothing in it is trusted: three words, a slot in range, an
	// address that can be one.
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return redirection{}
	}
	slot, err := strconv.Atoi(words[1])
	colon := strings.LastIndex(words[2], ":") // an IPv6 address has no brackets here
	if err != nil || slot < 0 || slot >= command.Slots || colon < 0 {
		return redirection{}
	}
	host, port := strings.Trim(words[2][:colon], "[]"), words[2][colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(from)
	}
	// An invalid endpoint leaves the address empty, which the caller takes for no redirect.
	address, _ := named.Endpoint(host, port)
	return redirection{words[0] == "ASK", slot, address}
}
