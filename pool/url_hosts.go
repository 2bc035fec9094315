package pool

import (
	"errors"
	"fmt"
	"net/url"
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

// setSentinels sets the Sentinels from the hosts, and the master's name and the database from the
// path.
func (c *Config) setSentinels(u *url.URL, more []string) error {
	// setSettings runs later. With Config.Sentinels it expects the master's name in the path.
	s := &Sentinels{TLS: c.TLS} // the scheme applies to the Sentinels and to the master; in a Config the two may differ
	c.Sentinels = s
	var err error
	if s.Addresses, err = addresses(u, more, defaultSentinelPort); err != nil {
		return err
	}
	// The path has two parts, the name and the database, because a database alone would read as a
	// name.
	master, database, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if s.Master = master; master == "" {
		return errors.New("the Sentinels' name for the master is missing: redis+sentinel://host,host,host/master[/database]")
	}
	return c.setDatabase(database)
}

// setCluster sets the members from the hosts. The database can only be 0.
func (c *Config) setCluster(u *url.URL, more []string) (err error) {
	if c.Cluster, err = addresses(u, more, defaultPort); err != nil {
		return err
	}
	// setDatabase accepts any number. checkCluster refuses all but 0.
	return c.setDatabase(strings.TrimPrefix(u.Path, "/"))
}

// addresses returns host:port for all hosts of a URL.
func addresses(u *url.URL, more []string, port string) ([]string, error) {
	// Only the host and port of u are used here. setUser sets the user and password. With Sentinels
	// these are the master's.
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

// set sets a setting that only a URL with Sentinels may have.
func (s *Sentinels) set(name, value string) error {
	switch name {
	case "max_age":
		if err := duration(name, value, &s.MaxAge); err != nil {
			return err
		}
	// Sentinels have users of their own. Without these settings they are queried without a
	// password.
	case "sentinel_user":
		s.Username = value
	case "sentinel_password":
		s.Password = value
	default:
		return fmt.Errorf("unknown setting %s", shown(name))
	}
	return nil
}
