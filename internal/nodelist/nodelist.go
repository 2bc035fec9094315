// Package nodelist reads lists of nodes as the command and package redlock accept them.
package nodelist

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/pool"
)

// Split splits a list of URLs that are separated by commas, as in a flag or an environment
// variable. A comma without a scheme after it belongs to a URL of several hosts
// (redis+sentinel://a,b,c/master, redis+cluster://a,b,c). Spaces around a URL are dropped.
func Split(list string) []string {
	var all []string
	for part := range strings.SplitSeq(list, ",") {
		// An empty part remains an entry of its own, which ParseURL then rejects.
		if n := len(all); n > 0 && part != "" && !strings.Contains(part, "://") && ofSeveralHosts(all[n-1]) {
			all[n-1] += "," + part
			continue
		}
		all = append(all, part)
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// ofSeveralHosts reports whether the scheme of a URL allows several hosts.
func ofSeveralHosts(rawURL string) bool {
	return strings.Contains(rawURL, "+sentinel://") || strings.Contains(rawURL, "+cluster://")
}

// Parse parses the URLs of a list. Its error says of each wrong one where it stands, and quotes none.
func Parse(urls []string) ([]pool.Config, error) {
	list, errs := make([]pool.Config, len(urls)), []error(nil)
	for i, url := range urls {
		var err error
		if list[i], err = pool.ParseURL(url); err != nil {
			errs = append(errs, fmt.Errorf("URL %d of %d: %w", i+1, len(urls), err))
		}
	}
	return list, oneline.Join(errs...)
}

// CheckNumber returns an error for more nodes than a vote can have.
func CheckNumber(nodes int) error {
	if nodes > quorum.MaxNodes {
		return fmt.Errorf("%d nodes, at most %d", nodes, quorum.MaxNodes)
	}
	return nil
}

// Names returns the names of the nodes. It returns an error if there are too many, or if two nodes have
// one name or one server.
func Names(list []pool.Config) ([]string, error) {
	if err := CheckNumber(len(list)); err != nil {
		return nil, err
	}
	names := make([]string, len(list))
	seen := make(map[string]bool)
	for i, cfg := range list {
		where := cfg.DefaultName()
		names[i] = cmp.Or(cfg.Name, where)
		if seen[where] || seen[names[i]] {
			return nil, fmt.Errorf("node %s is listed twice", names[i])
		}
		seen[where], seen[names[i]] = true, true
	}
	return names, nil
}
