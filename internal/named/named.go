// Package named is about the addresses that a Sentinel or a member of a Cluster names, and those of the Sentinels and the members
// themselves. Programs link it that import one of these kinds of nodes.
package named

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/resp"
)

// First returns the first address in alphabetical order, or an empty text.
func First(addresses []string) string {
	if len(addresses) == 0 {
		return ""
	}
	return slices.Min(addresses)
}

// Addresses returns host:port for all hosts of a URL.
func Addresses(u *url.URL, more []string, port string) ([]string, error) {
	// Only the host and port of u are used here.
	hosts := []*url.URL{u}
	for _, h := range more {
		other, err := url.Parse("redis://" + h)
		// Another host must be only a host: a user, a path or a setting in it would be lost.
		if err != nil || other.Host != h {
			return nil, errors.New("invalid host in list")
		}
		hosts = append(hosts, other)
	}
	var all []string
	for _, h := range hosts {
		address, err := node.HostPort(h, port)
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

// NoURLs returns the first error of node.NotURL, because a URL in the wrong place is one mistake.
func NoURLs(setting string, values []string) (err error) {
	for _, v := range values {
		err = cmp.Or(err, node.NotURL(setting, v))
	}
	return err
}

// NoHost is what a server names in place of a host that it does not know.
const NoHost = "?"

// ErrNoAddress rejects an address that a server named.
var ErrNoAddress = errors.New("server named an invalid address")

// Endpoint returns the address of a host and port that a server named. It refuses what cannot be
// one, because the text would appear in errors and logs, at any length.
func Endpoint(host, port string) (string, error) {
	// 16 bits: a larger number is not a port.
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || host == NoHost || node.CheckText("host", host, node.MaxName, node.Graphic) != nil {
		return "", ErrNoAddress
	}
	return net.JoinHostPort(host, port), nil
}

// Error is why a server can't be used whose address is not in the node's URL, because other
// servers named it.
type Error struct {
	Err   error
	Named string // who named which address, and what to set if clients can't reach it
}

// Error returns the reason, and who named the address.
func (e *Error) Error() string { return e.Err.Error() + "; " + e.Named }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// By returns err with who named the address, and what to do if clients can't reach it. The reply of
// a server says enough by itself.
func By(err error, who, address, cure string) error {
	if resp.IsServerError(err) {
		return err
	}
	if strings.Contains(err.Error(), address) {
		address = "this address"
	}
	return &Error{Err: err, Named: who + " named " + address + ": if clients can't reach it, " + cure}
}
