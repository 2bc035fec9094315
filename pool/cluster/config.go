package cluster

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
)

// Config makes a node an independent Redis Cluster. Each lock is on the master that has the slot of
// its key, and moves with the slot.
//
// A Cluster has at most 1,024 masters. A slot map (CLUSTER SLOTS) that names more is refused
// with an error that says so.
//
// A Cluster is one vote. All keys of a lock must have one hash slot. Replication is
// asynchronous, so a promoted replica lacks the last writes that its master acknowledged, and
// the restart guard, which would keep it from voting, is not possible here: after a failover a
// Cluster may grant a lock again. Prefer single masters, or Sentinels, if you have the choice.
// A Config must not be changed while a node is opened with it.
type Config struct {
	// Addresses are host:port of some members, 1 to 64, of which one must answer. They are
	// required. The addresses of the other members are those that the Cluster announces
	// (cluster-announce-ip, cluster-announce-hostname).
	Addresses []string
}

const (
	scheme   = "redis+cluster"
	maxSeeds = 64
)

// String returns how the Cluster is reached, as a URL without TLS and user.
func (c Config) String() string { return c.url(false, "") }

// GoString returns String's result in the form of %#v. An address that is a URL by mistake is not shown: it may contain a password.
func (c Config) GoString() string { return "cluster.Config(" + c.String() + ")" }

// LogValue returns String's result, so a handler that encodes fields does not see such a URL either.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// url returns how the Cluster is reached, without a password.
func (c *Config) url(encrypted bool, user string) string {
	if c.checkURLs() != nil {
		return node.NotShown
	}
	return fmt.Sprintf("%s://%s%s", node.SchemeOf(scheme, encrypted), node.UserPart(user), strings.Join(c.Addresses, ","))
}

// checkURLs refuses addresses that may be URLs with a password, which errors and String would show.
func (c *Config) checkURLs() error { return named.NoURLs("cluster.Config.Addresses", c.Addresses) }
