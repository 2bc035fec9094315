package pool

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/go-redlock/internal/node"
)

// ParseURL returns the Config of a master's address in the form of the Redis URI convention:
//
//	redis://[[user]:password@]host[:port][/database][?settings]
//	rediss://…                                 over TLS, verifying the host
//	unix://[[user]:password@]/path/to/socket[?settings]
//	redis+sentinel://[[user]:password@]host[:port][,host[:port]…]/master[/database][?settings]
//	rediss+sentinel://…                        over TLS, also to the Sentinels
//	redis+cluster://[[user]:password@]host[:port][,host[:port]…][?settings]
//	rediss+cluster://…                         over TLS
//
// The port defaults to 6379. An IPv6 address is written in brackets. User and password are
// percent-decoded. A user without a password (redis://name@host) is an error, because some
// clients take that name for the password. An empty password is written redis://name:@host.
//
// With Sentinels, which need the import of package pool/sentinel, the hosts are all Sentinels, at port 26379
// by default, and master is the name by which they know the master. User and password are the master's. The
// Sentinels' own are the settings sentinel_user and sentinel_password. The setting max_age is sentinel.Config.MaxAge.
//
// With a Cluster, which needs the import of package pool/cluster, the hosts are some of its members, at port
// 6379 by default. A Cluster has no database but 0.
//
// The settings are db (or the path: both must agree), client_name, name, proxied (true or false), and
// dial_timeout and hard_timeout (as in "1.5s"). Any other setting is an error, and so is a setting given
// twice. Bounds are those of [Config].
//
// An error shows no part of the URL except the name of a setting, or an IP address and a port
// without a scheme. So no error shows a password, even if the URL is malformed.
func ParseURL(rawURL string) (Config, error) {
	c, err := parseURL(rawURL)
	if err != nil {
		return Config{}, fmt.Errorf("pool: the URL of a master: %w", err)
	}
	return c, nil
}

// parseURL is ParseURL without the prefix of its errors.
func parseURL(rawURL string) (c Config, err error) {
	if strings.TrimSpace(rawURL) == "" {
		return c, errors.New("empty URL: the variable that it comes from may be unset")
	}
	if !strings.Contains(rawURL, "://") {
		example := "host:6379"
		if _, err := netip.ParseAddrPort(rawURL); err == nil { // it is no password
			example = rawURL
		}
		return c, fmt.Errorf("no scheme: it begins with redis://, as in redis://%s, or with rediss:// (TLS)", example)
	}
	// First the other hosts are removed, because net/url accepts one host only.
	rawURL, more := severalHosts(rawURL)
	u, err := url.Parse(rawURL)
	if err != nil {
		return c, malformed(err)
	}
	// Before anything of the URL is used in an error, because the parts may then contain a
	// password.
	if badPosition(u) {
		return c, errors.New("@ after the host: in user, password and settings / ? # @ must be percent-encoded")
	}
	settings, err := settingsOf(u)
	if err != nil {
		return c, err
	}
	database, err := c.setAddress(u, more, settings)
	if err != nil {
		return c, err
	}
	if err := cmp.Or(c.setUser(u.User), c.setDatabase(database), c.setSettings(settings, database != "")); err != nil {
		return c, err
	}
	// Checked with all defaults, so that a URL with settings that contradict a default is an
	// error here and not when the node is opened.
	return c, c.withAllDefaults().check()
}

// malformed returns what is wrong with a URL without showing it. url.Error contains the whole URL,
// and the error inside it may contain a part of the password.
func malformed(err error) error {
	var escape url.EscapeError
	var host url.InvalidHostError
	switch {
	// These two kinds are named, because they have a cure of their own.
	case errors.As(err, &escape):
		return errors.New("% is not followed by two hexadecimal digits")
	case errors.As(err, &host):
		return errors.New("invalid character in the host")
	}
	return errors.New("must be redis://[[user]:password@]host[:port][/database]; " +
		"in user and password / ? # @ must be percent-encoded")
}

// badPosition reports whether there is an @ after the host. It is then the end of a password that
// was not percent-encoded: its / ? or # ended the host early. The rest of the password up to the @
// would be taken for a path or a setting, and be shown.
func badPosition(u *url.URL) bool {
	return strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment()+u.Opaque, "@")
}

// setAddress takes the scheme, the hosts and the path. It returns the part of the path that is the database.
func (c *Config) setAddress(u *url.URL, more []string, settings map[string]string) (database string, err error) {
	scheme := u.Scheme
	if with, ok := strings.CutPrefix(scheme, "rediss"); ok {
		scheme, c.TLS = "redis"+with, verifyingTLS
	}
	path := strings.TrimPrefix(u.Path, "/")
	// The schemes with several hosts come first: for all others more than one host is an error.
	switch {
	case u.Fragment != "":
		return "", errors.New("a URL of a master has no fragment (#): in user and password # must be percent-encoded")
	case kinds[scheme] != "":
		return c.setKind(scheme, u, more, path, settings)
	case len(more) > 0:
		return "", errors.New("several hosts in one URL: only redis+sentinel and redis+cluster allow that")
	// A socket has no host, and its path is not a database.
	case scheme == "unix":
		return "", c.setSocket(u)
	case scheme != "redis":
		return "", errors.New("the scheme must be redis, rediss, unix, " +
			"redis+sentinel, rediss+sentinel, redis+cluster or rediss+cluster")
	}
	c.Address, err = node.HostPort(u, "6379")
	return path, err
}

// kinds has the packages that read the schemes of other kinds.
var kinds = map[string]string{"redis+sentinel": "sentinel", "redis+cluster": "cluster"}

// setKind has the package of a kind read a URL.
func (c *Config) setKind(scheme string, u *url.URL, more []string, path string, settings map[string]string) (database string, err error) {
	read, imported := node.Schemes[scheme]
	if !imported {
		return "", fmt.Errorf("the scheme %s needs import _ %q", scheme, "github.com/quorumlock/go-redlock/pool/"+kinds[scheme])
	}
	kind, database, err := read(u, more, path, settings, c.TLS)
	c.Kind = kind
	return database, err
}

// setSocket sets the address from the path of a unix URL. A host would mean that a slash is
// missing.
func (c *Config) setSocket(u *url.URL) error {
	if u.Host != "" || len(u.Path) < 2 {
		return errors.New("a unix URL needs an absolute path and no host: unix:///path/to/socket")
	}
	c.Network, c.Address = "unix", u.Path
	return nil
}

// verifyingTLS leaves the server's name open: the dial sets it, because it knows the address.
func verifyingTLS(context.Context) (*tls.Config, error) {
	return &tls.Config{MinVersion: tls.VersionTLS12}, nil
}

// setUser sets user and password. Both remain empty if the URL has none.
func (c *Config) setUser(u *url.Userinfo) error {
	password, given := u.Password()
	if u.Username() != "" && !given {
		return errors.New("a user without a password: write redis://:password@host for a password alone, " +
			"redis://user:@host for an empty one")
	}
	c.Username, c.Password = u.Username(), password
	return nil
}

// setDatabase sets the database of the path. An empty string means that none is given.
func (c *Config) setDatabase(number string) error {
	if number == "" {
		return nil
	}
	// 31 bits, so that the number fits an int on every system.
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return fmt.Errorf("the database must be 0 to %d", math.MaxInt32)
	}
	c.Database = int(n)
	return nil
}

// settingsOf returns what follows the question mark.
func settingsOf(u *url.URL) (map[string]string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the settings must be percent-encoded, and separated by &")
	}
	settings := make(map[string]string, len(query))
	for name, values := range query {
		if len(values) > 1 {
			return nil, fmt.Errorf("the setting %s is given twice", shown(name))
		}
		settings[name] = values[0]
	}
	return settings, nil
}

// setSettings sets what follows the question mark, except what only a Kind has. The order of the settings is not
// kept, so none may depend on another one.
func (c *Config) setSettings(settings map[string]string, inPath bool) error {
	ofPath := c.Database
	for name, value := range settings {
		if err := c.set(name, value); err != nil {
			return err
		}
	}
	if inPath && c.Database != ofPath {
		return errors.New("the path and the setting db name different databases")
	}
	return nil
}

// set takes one setting of the query.
func (c *Config) set(name, value string) (err error) {
	switch name {
	case "db":
		if value == "" {
			return errors.New("the setting db is empty")
		}
		return c.setDatabase(value)
	case "name":
		c.Name = value
	case "client_name":
		c.ClientName = value
	case "dial_timeout":
		c.DialTimeout, err = node.Duration(name, value)
	case "hard_timeout":
		c.HardTimeout, err = node.Duration(name, value)
	case "proxied":
		if value != "true" && value != "false" {
			return errors.New("the setting proxied must be true or false")
		}
		c.Proxied = value == "true"
	default:
		return fmt.Errorf("unknown setting %s", shown(name))
	}
	return err
}

// shown quotes the name of a setting unless it does not look like one: it may be a part of a
// password then.
func shown(name string) string {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-' }
	if len(name) > 32 || slices.ContainsFunc([]rune(name), odd) {
		return "(name not shown)"
	}
	return strconv.Quote(name)
}
