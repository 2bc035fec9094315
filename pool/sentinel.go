package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Sentinels say which server is the master of a node: whichever more than half of them
// have named within the last Settle, counted from before they were asked. While they
// don't, the node does not vote: on the far side of a partition the old master would go
// on voting beside the new one (docs/dev/hazards.md H102). So a majority of Sentinels that a client
// reaches is as necessary to its vote as the master itself.
//
// A replica that was promoted lacks what its master had acknowledged last, because
// replication is asynchronous. So such a node is for Lockers with WithRestartGuard
// alone, which keeps it from voting for maxTTL + Settle after each failover; redlock.New
// refuses others.
type Sentinels struct {
	// Master is the name under which the Sentinels watch it, of 1 to 255 printable
	// bytes without a space. It has no default.
	Master string

	// Addresses are host:port of all Sentinels that watch the master, 1 to 32, and the
	// same ones for every client: a majority of some of them is not a majority of
	// all, and two clients that ask different ones may follow different masters. They have no default.
	Addresses []string

	// Username and Password are given to the Sentinels by AUTH at every dial; both
	// empty: no AUTH. They are not the master's, which stand in Config.
	Username, Password string

	// Credentials is asked at every dial of a Sentinel in place of Username and Password.
	// It must return when ctx is done. Defaults to nil.
	Credentials func(ctx context.Context) (user, password string, err error)

	// TLS is asked at every dial of a Sentinel; it must return when ctx is done. A
	// configuration without a ServerName verifies the host of the address. Defaults to
	// nil: no TLS, also where Config.TLS encrypts the connections to the master.
	TLS func(ctx context.Context) (*tls.Config, error)

	// MaxAge is how long what a Sentinel said counts, in whole milliseconds from 100 ms
	// to 1 min. They are asked five times in it, and at once when one announces another
	// master. It must be the same for all clients of a lock: it is part of the marker
	// of the restart guard. A longer one survives longer pauses of Sentinels, and has
	// every failover take that much longer. Defaults to 5 s.
	MaxAge time.Duration
}

// Sentinel opens a node that is whatever master its Sentinels name. Of cfg the Address
// must be empty; Username, Password, TLS, Database and all else are those of the
// masters, of which each may become the one. Config.Dial is asked for the Sentinels,
// too. It is Open with Config.Sentinels set.
func Sentinel(s Sentinels, cfg Config) (*Node, error) {
	cfg.Sentinels = &s
	return Open(cfg)
}

const (
	defaultMaxAge        = 5 * time.Second
	minMaxAge, maxMaxAge = 100 * time.Millisecond, time.Minute
	pollsPerMaxAge       = 5
	maxSentinels         = 32
	defaultSentinelPort  = "26379"
	sentinelScheme       = "redis+sentinel"
	encryptedSentinels   = "rediss+sentinel"
	maxAgeSlack          = 50 // part of Settle that is given away to clocks that run at other rates
	switchChannel        = "+switch-master"
)

// withDefaults is a copy with the defaults in place, so that nobody changes it later.
func (s *Sentinels) withDefaults() *Sentinels {
	if s == nil {
		return nil
	}
	c := *s
	c.Addresses = slices.Clone(s.Addresses)
	if c.MaxAge == 0 {
		c.MaxAge = defaultMaxAge
	}
	return &c
}

func (s *Sentinels) check() error {
	errs := []error{
		printable("Sentinels.Master", s.Master, maxName, true),
		inRange("the number of Sentinels.Addresses", len(s.Addresses), 1, maxSentinels),
		inRange("Sentinels.MaxAge", s.MaxAge, minMaxAge, maxMaxAge),
	}
	if s.MaxAge%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("Sentinels.MaxAge is %v, must be whole milliseconds", s.MaxAge))
	}
	for i, a := range s.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			errs = append(errs, badSetting("Sentinels.Addresses", a, "host:port"))
		}
		if slices.Contains(s.Addresses[:i], a) {
			errs = append(errs, errors.New("a Sentinel is listed twice: it would be counted twice"))
		}
	}
	return oneline.Join(errs...)
}

// maxAge is how long what a Sentinel said counts by our own clock, which may be slower
// than the master's that ends a quarantine.
func (s *Sentinels) maxAge() time.Duration { return s.MaxAge - s.MaxAge/maxAgeSlack }

// majority is how many of the configured Sentinels it takes, never of those that answer.
func (s *Sentinels) majority() int { return len(s.Addresses)/2 + 1 }

// name is what a node is called that was given no name. It does not depend on the order
// of the list: the restart guard compares names.
func (s *Sentinels) name(database int) string {
	first := ""
	if len(s.Addresses) > 0 {
		first = slices.Min(s.Addresses)
	}
	return fmt.Sprintf("%s@%s/%d", s.Master, first, database)
}

// sentinel is how one Sentinel is reached: as the masters are, but for who we are there.
func (c Config) sentinel(address string) Config {
	s := c.Sentinels
	return Config{
		Name: "Sentinel " + address + " of " + c.Name, Network: "tcp", Address: address,
		Username: s.Username, Password: s.Password, Credentials: s.Credentials, TLS: s.TLS,
		ClientName: c.ClientName, Dial: c.Dial, DialTimeout: min(c.DialTimeout, s.MaxAge), HardTimeout: c.HardTimeout,
		RedialMin: c.RedialMin, RedialMax: c.RedialMax, Clock: c.Clock, Logger: c.Logger,
	}
}

// String shows the Sentinels without a password.
func (s Sentinels) String() string { return s.url(s.TLS != nil, "", 0) }

// GoString is String: %#v must not show the password either.
func (s Sentinels) GoString() string { return "pool.Sentinels(" + s.String() + ")" }

// LogValue is String: a handler that encodes fields must not see the password.
func (s Sentinels) LogValue() slog.Value { return slog.StringValue(s.String()) }

// url shows how the master is reached.
func (s *Sentinels) url(encrypted bool, user string, database int) string {
	if s.checkURLs() != nil {
		return notShown
	}
	scheme := sentinelScheme
	if encrypted {
		scheme = encryptedSentinels
	}
	return fmt.Sprintf("%s://%s%s/%s/%d", scheme, user, strings.Join(s.Addresses, ","), s.Master, database)
}
