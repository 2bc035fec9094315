package sentinel

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Config says which Sentinels determine which server is the master of a node: the one that more than half of them
// have named within the last MaxAge, counted from before the query. While there is no such master
// the node does not vote. On the far side of a partition the old master would otherwise vote
// beside the new one. A client therefore needs a majority of the Sentinels as much as the master
// itself.
//
// Replication is asynchronous, so a promoted replica lacks the last writes that its master
// acknowledged. Such a node therefore requires WithRestartGuard, which keeps it from voting for
// maxTTL + MaxAge after each failover. redlock.New refuses it without. A Config must not be
// changed while a node is opened with it. Printing one shows no password.
type Config struct {
	// Master is the name under which the Sentinels watch the master, of 1 to 255 printable bytes
	// without a space. It is required.
	Master string

	// Addresses are host:port of all Sentinels that watch the master, 1 to 32, and the same for
	// every client. A majority of some of them is not a majority of all, and two clients that
	// query different ones may follow different masters. They are required.
	Addresses []string

	// Username and Password are sent to the Sentinels by AUTH at every dial; without AUTH if both
	// are empty. Those of the master are in pool.Config.
	Username, Password string

	// Credentials replaces Username and Password at every dial of a Sentinel. It must return when
	// ctx is done. The default is nil.
	Credentials func(ctx context.Context) (user, password string, err error)

	// TLS returns the configuration for every dial of a Sentinel. It must return when ctx is
	// done. A configuration without a ServerName verifies the host of the address. The default is
	// nil: no TLS, even if pool.Config.TLS encrypts the connections to the master.
	TLS func(ctx context.Context) (*tls.Config, error)

	// MaxAge is how long the answer of a Sentinel counts, in whole milliseconds from 100 ms to 1
	// min. Each Sentinel is queried five times in MaxAge, and at once when one announces another
	// master. MaxAge must be the same for all clients of a lock, because it is part of the
	// restart guard's marker. A longer one survives longer pauses of Sentinels, and makes every
	// failover take that much longer. The default is 5 s.
	MaxAge time.Duration
}

const (
	defaultMaxAge        = 5 * time.Second
	minMaxAge, maxMaxAge = 100 * time.Millisecond, time.Minute
	pollsPerMaxAge       = 5
	maxSentinels         = 32
	scheme               = "redis+sentinel"
	maxAgeSlack          = 50 // the part of MaxAge that is given up to clocks with other rates
	switchChannel        = "+switch-master"
)

// String returns how the master is reached, as a URL without a password.
func (c Config) String() string { return kind{&c}.URL(c.TLS != nil, "", 0) }

// GoString returns String's result in the form of %#v, which must not show the password either.
func (c Config) GoString() string { return "sentinel.Config(" + c.String() + ")" }

// LogValue returns String's result, so a handler that encodes fields does not see the password.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// NodeKind is what package pool asks for. It returns a copy with all defaults.
func (c *Config) NodeKind() node.Kind {
	if c == nil {
		c = &Config{}
	}
	with := *c
	with.Addresses = slices.Clone(c.Addresses)
	with.MaxAge = cmp.Or(c.MaxAge, defaultMaxAge)
	return kind{&with}
}

// kind is a Config with all defaults. It does not change.
type kind struct{ *Config }

func (k kind) NodeKind() node.Kind { return k }

// Traits has MaxAge: only a node behind Sentinels needs longer quarantines, because a failover may lose what was granted shortly before.
func (k kind) Traits() command.NodeKind { return command.NodeKind{MaxAge: k.MaxAge} }

func (k kind) DefaultName(database int) string {
	return fmt.Sprintf("%s@%s/%d", k.Master, node.First(k.Addresses), database)
}

// Check looks for URLs first: the other errors quote the addresses, and a URL may contain a password.
func (k kind) Check(s *transport.Settings, proxied bool) error {
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
		if slices.Contains(k.Addresses[:i], a) {
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

func (k kind) checkURLs() error {
	return cmp.Or(node.NotURL("sentinel.Config.Master", k.Master), node.NoURLs("sentinel.Config.Addresses", k.Addresses))
}

func (k kind) URL(encrypted bool, user string, database int) string {
	if k.checkURLs() != nil {
		return node.NotShown
	}
	return fmt.Sprintf("%s://%s%s/%s/%d", node.SchemeOf(scheme, encrypted), node.UserPart(user), strings.Join(k.Addresses, ","), k.Master, database)
}

func (k kind) WithTLS(config node.TLS) node.Configured {
	with := *k.Config
	with.TLS = config
	return &with
}

func (k kind) Open(b *node.Base) node.Shape {
	r := newResolver(b, k)
	r.start()
	return r
}

// maxAge returns how long an answer counts by this machine's clock, which may be slower than the
// clock of the master that ends a quarantine.
func (k kind) maxAge() time.Duration { return k.MaxAge - k.MaxAge/maxAgeSlack }

// majority is a majority of the configured Sentinels, not of those that answer.
func (k kind) majority() int { return len(k.Addresses)/2 + 1 }

// settings returns how one Sentinel is reached: as the master, except for the credentials and TLS.
func (k kind) settings(master *transport.Settings, address string) *transport.Settings {
	s := master.At(address)
	s.Database = 0
	s.Username, s.Password, s.Credentials, s.TLS = k.Username, k.Password, k.Credentials, k.TLS
	s.DialTimeout = min(s.DialTimeout, k.MaxAge)
	return s
}

func init() { node.Schemes[scheme] = node.Scheme{Port: "26379", Read: read} }

// read reads a URL. Its path has two parts, the master's name and the database, because a database alone would read as a name.
func read(addresses []string, path string, settings map[string]string, encrypted node.TLS) (_ node.Configured, database string, err error) {
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
