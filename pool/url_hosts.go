package pool

import (
	"cmp"
	"errors"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// severalHosts removes all hosts but the first from a URL and returns them, because net/url
// supports one host. A URL of one host is returned unchanged.
func severalHosts(rawURL string) (single string, more []string) {
	begin := strings.Index(rawURL, "://")
	// Without an authority there is no list of hosts.
	if begin < 0 {
		return rawURL, nil
	}
	begin += len("://")
	end := len(rawURL)
	// The authority ends where the path, the query or the fragment begins.
	if i := strings.IndexAny(rawURL[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	// The user and password may contain commas, so the hosts begin after the last "@".
	begin += strings.LastIndex(rawURL[begin:end], "@") + 1
	hosts := strings.Split(rawURL[begin:end], ",")
	return rawURL[:begin] + hosts[0] + rawURL[end:], hosts[1:]
}

// addresses returns host:port for all hosts of a URL.
func addresses(u *url.URL, more []string, port string) ([]string, error) {
	// Only the host and port of u are used here. setUser sets the user and password.
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
		address, err := hostPort(h, port)
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

// hostPort returns the URL's host and port, or the usual port if the URL has none.
func hostPort(u *url.URL, usual string) (string, error) {
	host, port := u.Hostname(), cmp.Or(u.Port(), usual)
	// Without this check the address would be that of the local machine.
	if host == "" {
		return "", errors.New("no host")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 {
		return "", errors.New("the port must be 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}
