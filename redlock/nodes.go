package redlock

import (
	"io"
	"slices"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/nodelist"
	"github.com/quorumlock/go-redlock/internal/oneline"
)

func nodeNames(nodes []command.Voter) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	return names
}

// clustered reports whether any of the nodes is a Redis Cluster.
func clustered(nodes []command.Voter) bool {
	return slices.ContainsFunc(nodes, func(n command.Voter) bool { return n.Kind().Cluster })
}

// recovery returns the longest NodeKind.Recovery of all nodes.
func recovery(nodes []command.Voter) (longest time.Duration) {
	for _, n := range nodes {
		longest = max(longest, n.Kind().Recovery)
	}
	return longest
}

func checkNodes(nodes []command.Voter) error {
	if len(nodes) == 0 {
		return errNoNodes
	}
	if err := nodelist.CheckNumber(len(nodes)); err != nil {
		return invalid("%w", err)
	}
	seen := make(map[string]bool, len(nodes))
	for i, n := range nodes {
		switch {
		case n == nil:
			return invalid("node %d of %d is nil", i+1, len(nodes))
		case seen[n.Name()]:
			return invalid("node %s is listed twice", n.Name())
		}
		seen[n.Name()] = true
	}
	return nil
}

func closeAll[N io.Closer](nodes []N) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Close())
	}
	return oneline.Join(errs...)
}
