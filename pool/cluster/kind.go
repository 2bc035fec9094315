package cluster

import (
	"errors"
	"net/url"
	"slices"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// NodeKind is what package pool asks for.
func (c *Config) NodeKind() node.Kind {
	if c == nil {
		c = &Config{}
	}
	return nodeKind{&Config{slices.Clone(c.Addresses)}}
}

// nodeKind is a copy of a Config. It does not change.
type nodeKind struct{ *Config }

func (k nodeKind) NodeKind() node.Kind { return k }

func (nodeKind) Traits() command.NodeKind { return command.NodeKind{Cluster: true} }

func (k nodeKind) DefaultName(int) string { return "cluster@" + named.First(k.Addresses) }

// Check returns all wrong addresses, and the first setting that a Cluster excludes.
func (k nodeKind) Check(s *transport.Settings, proxied bool) error {
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

func (k nodeKind) URL(encrypted bool, user string, _ int) string {
	return k.url(encrypted, user)
}

// WithTLS changes nothing: all servers are members.
func (k nodeKind) WithTLS(node.TLS) node.Configured { return k.Config }

func (k nodeKind) Open(p *node.Parts) node.Shape { return newCluster(p, k.Config) }

func init() { node.Schemes[scheme] = readURL }

// readURL reads a URL. Its path is the database: Check refuses all but 0.
func readURL(u *url.URL, more []string, path string, _ map[string]string, _ node.TLS) (_ node.Configured, database string, err error) {
	addresses, err := named.Addresses(u, more, "6379")
	return &Config{Addresses: addresses}, path, err
}
