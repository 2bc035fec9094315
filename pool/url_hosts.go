package pool

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// SplitURLs parts a list of URLs with commas between them, as it stands in a flag or a
// variable of the environment. A comma that no scheme follows belongs to a URL of
// several hosts (redis+sentinel://a,b,c/master, redis+cluster://a,b,c). Spaces around a URL
// are dropped.
func SplitURLs(list string) []string {
	var all []string
	for part := range strings.SplitSeq(list, ",") {
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

func ofSeveralHosts(rawURL string) bool {
	return strings.Contains(rawURL, "+sentinel://") || strings.Contains(rawURL, "+cluster://")
}

// severalHosts takes all hosts but the first out of a URL: net/url knows of one. A URL of
// one host it leaves as it is.
func severalHosts(rawURL string) (single string, more []string) {
	begin := strings.Index(rawURL, "://")
	if begin < 0 {
		return rawURL, nil
	}
	begin += len("://")
	end := len(rawURL)
	if i := strings.IndexAny(rawURL[begin:], "/?#"); i >= 0 {
		end = begin + i
	}
	begin += strings.LastIndex(rawURL[begin:end], "@") + 1
	hosts := strings.Split(rawURL[begin:end], ",")
	return rawURL[:begin] + hosts[0] + rawURL[end:], hosts[1:]
}

// setSentinels takes the hosts for Sentinels, and the path for the master's name and the
// database.
func (c *Config) setSentinels(u *url.URL, more []string) error {
	s := &Sentinels{}
	c.Sentinels = s
	if u.Scheme == encryptedSentinels {
		c.TLS, s.TLS = verifyingTLS, verifyingTLS
	}
	var err error
	if s.Addresses, err = addresses(u, more, defaultSentinelPort); err != nil {
		return err
	}
	master, database, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	if s.Master = master; master == "" {
		return errors.New("the Sentinels' name for the master is missing: redis+sentinel://host,host,host/master[/database]")
	}
	return c.setDatabase(database)
}

// setCluster takes the hosts for members of a Cluster, which has one database.
func (c *Config) setCluster(u *url.URL, more []string) (err error) {
	if u.Scheme == encryptedCluster {
		c.TLS = verifyingTLS
	}
	if c.Cluster, err = addresses(u, more, defaultPort); err != nil {
		return err
	}
	return c.setDatabase(strings.TrimPrefix(u.Path, "/"))
}

// addresses are host:port of all hosts of a URL.
func addresses(u *url.URL, more []string, port string) ([]string, error) {
	hosts := []*url.URL{u}
	for _, h := range more {
		other, err := url.Parse("redis://" + h)
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

func (s *Sentinels) set(name, value string) error {
	switch name {
	case "max_age":
		if err := duration(name, value, &s.MaxAge); err != nil {
			return err
		}
	case "sentinel_user":
		s.Username = value
	case "sentinel_password":
		s.Password = value
	default:
		return fmt.Errorf("unknown setting %s", shown(name))
	}
	return nil
}
