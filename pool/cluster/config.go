package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/transport"
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
func (c Config) String() string { return kind{&c}.URL(false, "", 0) }

// GoString returns String's result in the form of %#v. An address that is a URL by mistake is not shown: it may contain a password.
func (c Config) GoString() string { return "cluster.Config(" + c.String() + ")" }

// LogValue returns String's result, so a handler that encodes fields does not see such a URL either.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// NodeKind is what package pool asks for.
func (c *Config) NodeKind() node.Kind {
	if c == nil {
		c = &Config{}
	}
	return kind{&Config{slices.Clone(c.Addresses)}}
}

// kind is a copy of a Config. It does not change.
type kind struct{ *Config }

func (k kind) NodeKind() node.Kind { return k }

func (kind) Traits() command.NodeKind { return command.NodeKind{Cluster: true} }

func (k kind) DefaultName(int) string { return "cluster@" + node.First(k.Addresses) }

// Check returns all wrong addresses, and the first setting that a Cluster excludes.
func (k kind) Check(s *transport.Settings, proxied bool) error {
	if err := k.checkURLs(); err != nil {
		return err
	}
	errs := []error{node.InRange("the number of cluster.Config.Addresses", len(k.Addresses), 1, maxSeeds)}
	// Every wrong address is reported in one error, so a list is corrected in one go.
	for i, a := range k.Addresses {
		errs = append(errs, node.CheckHostPort("cluster.Config.Addresses", a))
		if slices.Contains(k.Addresses[:i], a) {
			errs = append(errs, errors.New("a member of the Cluster is listed twice"))
		}
	}
	switch {
	case s.Network != "tcp":
		errs = append(errs, node.BadSetting("Network", s.Network, "tcp with a Cluster"))
	case s.Address != "":
		errs = append(errs, node.BadSetting("Address", s.Address, "empty with a Cluster"))
	case s.Database != 0:
		errs = append(errs, errors.New("a Cluster has only database 0"))
	case proxied:
		errs = append(errs, errors.New("a node is Proxied or a Cluster, not both: give the proxy's address as that of a single master"))
	}
	return oneline.Join(errs...)
}

func (k kind) checkURLs() error { return node.NoURLs("cluster.Config.Addresses", k.Addresses) }

func (k kind) URL(encrypted bool, user string, _ int) string {
	if k.checkURLs() != nil {
		return node.NotShown
	}
	return fmt.Sprintf("%s://%s%s", node.SchemeOf(scheme, encrypted), node.UserPart(user), strings.Join(k.Addresses, ","))
}

// WithTLS changes nothing: all servers are members.
func (k kind) WithTLS(node.TLS) node.Configured { return k.Config }

func (k kind) Open(b *node.Base) node.Shape { return newCluster(b, k) }

func init() { node.Schemes[scheme] = node.Scheme{Port: "6379", Read: read} }

// read reads a URL. Its path is the database: Check refuses all but 0.
func read(addresses []string, path string, _ map[string]string, _ node.TLS) (_ node.Configured, database string, _ error) {
	return &Config{Addresses: addresses}, path, nil
}
