package sentinel

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// NodeKind is what package pool asks for. It returns a copy with all defaults.
func (c *Config) NodeKind() node.Kind {
	if c == nil {
		c = &Config{}
	}
	with := *c
	with.Addresses = slices.Clone(c.Addresses)
	with.MaxAge = cmp.Or(c.MaxAge, defaultMaxAge)
	return nodeKind{&with}
}

// nodeKind is a Config with all defaults. It does not change.
type nodeKind struct{ *Config }

func (k nodeKind) NodeKind() node.Kind { return k }

// Traits has MaxAge: only a node behind Sentinels needs longer quarantines, because a failover may lose what was granted shortly before.
func (k nodeKind) Traits() command.NodeKind { return command.NodeKind{MaxAge: k.MaxAge} }

func (k nodeKind) DefaultName(database int) string {
	return fmt.Sprintf("%s@%s/%d", k.Master, named.First(k.Addresses), database)
}

// Check looks for URLs first: the other errors quote the addresses, and a URL may contain a password.
func (k nodeKind) Check(s *transport.Settings, proxied bool) error {
	if err := k.checkURLs(); err != nil {
		return err
	}
	errs := []error{
		node.CheckText("sentinel.Config.Master", k.Master, node.MaxName, node.Graphic),
		node.InRange("the number of sentinel.Config.Addresses", len(k.Addresses), 1, maxSentinels),
		node.InRange("sentinel.Config.MaxAge", k.MaxAge, minMaxAge, maxMaxAge),
	}
	if k.MaxAge%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("sentinel.Config.MaxAge is %v, must be whole milliseconds", k.MaxAge))
	}
	for i, a := range k.Addresses {
		errs = append(errs, node.CheckHostPort("sentinel.Config.Addresses", a))
		if slices.ContainsFunc(k.Addresses[:i], func(other string) bool { return strings.EqualFold(a, other) }) {
			errs = append(errs, errors.New("a Sentinel is listed twice: it would be counted twice"))
		}
	}
	if s.Network != "tcp" {
		errs = append(errs, node.BadSetting("Network", s.Network, "tcp with Sentinels"))
	}
	if s.Address != "" {
		errs = append(errs, node.BadSetting("Address", s.Address, "empty with Sentinels, which name the address"))
	}
	if proxied {
		errs = append(errs, errors.New("a node is Proxied or follows Sentinels, not both: a proxy hides which master answers"))
	}
	return oneline.Join(errs...)
}

func (k nodeKind) URL(encrypted bool, user string, database int) string {
	return k.url(encrypted, user, database)
}

func (k nodeKind) WithTLS(config node.TLS) node.Configured {
	with := *k.Config
	with.TLS = config
	return &with
}

func (k nodeKind) Open(p *node.Parts) node.Shape {
	r := newResolver(p, k.Config)
	r.start()
	return r
}

func init() { node.Schemes[scheme] = readURL }

// readURL reads a URL. Its path has two parts, the master's name and the database, because a database alone would read as a name.
func readURL(
	u *url.URL, more []string, path string, settings map[string]string, encrypted node.TLS,
) (_ node.Configured, database string, err error) {
	addresses, err := named.Addresses(u, more, "26379")
	if err != nil {
		return nil, "", err
	}
	// The scheme applies to the Sentinels and to the master. In a Config the two may differ.
	c := &Config{Addresses: addresses, TLS: encrypted}
	if c.Master, database, _ = strings.Cut(path, "/"); c.Master == "" {
		return nil, "", errors.New("the Sentinels' name for the master is missing: redis+sentinel://host,host,host/master[/database]")
	}
	// Sentinels have users of their own. Without these settings they are queried without a password.
	c.Username, c.Password = settings["sentinel_user"], settings["sentinel_password"]
	if age, given := settings["max_age"]; given {
		c.MaxAge, err = node.Duration("max_age", age)
	}
	for _, name := range []string{"sentinel_user", "sentinel_password", "max_age"} {
		delete(settings, name)
	}
	return c, database, err
}
