package pool

import "strings"

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
