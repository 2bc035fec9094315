package pool

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Sentinels determine which server is the master of a node: the one that more than half of them
// have named within the last MaxAge, counted from before the query. While there is no such master
// the node does not vote. On the far side of a partition the old master would otherwise vote
// beside the new one. A client therefore needs a majority of the Sentinels as much as the master
// itself.
//
// Replication is asynchronous, so a promoted replica lacks the last writes that its master
// acknowledged. Such a node therefore requires WithRestartGuard, which keeps it from voting for
// maxTTL + MaxAge after each failover. redlock.New refuses it without. A Sentinels value must not
// be changed while a node is opened with it.
type Sentinels struct {
	// Master is the name under which the Sentinels watch the master, of 1 to 255 printable bytes
	// without a space. It is required.
	Master string

	// Addresses are host:port of all Sentinels that watch the master, 1 to 32, and the same for
	// every client. A majority of some of them is not a majority of all, and two clients that
	// query different ones may follow different masters. They are required.
	Addresses []string

	// Username and Password are sent to the Sentinels by AUTH at every dial; without AUTH if both
	// are empty. Those of the master are in Config.
	Username, Password string

	// Credentials replaces Username and Password at every dial of a Sentinel. It must return when
	// ctx is done. The default is nil.
	Credentials func(ctx context.Context) (user, password string, err error)

	// TLS returns the configuration for every dial of a Sentinel. It must return when ctx is
	// done. A configuration without a ServerName verifies the host of the address. The default is
	// nil: no TLS, even if Config.TLS encrypts the connections to the master.
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
	defaultSentinelPort  = "26379"
	sentinelScheme       = "redis+sentinel"
	maxAgeSlack          = 50 // the part of MaxAge that is given up to clocks with other rates
	switchChannel        = "+switch-master"
)

// withDefaults returns a copy with the defaults, which the caller cannot change later.
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

// check returns what is wrong with the settings, all of it in one error.
func (s *Sentinels) check() error {
	errs := []error{
		checkText("Sentinels.Master", s.Master, maxName, graphic),
		inRange("the number of Sentinels.Addresses", len(s.Addresses), 1, maxSentinels),
		inRange("Sentinels.MaxAge", s.MaxAge, minMaxAge, maxMaxAge),
	}
	if s.MaxAge%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("Sentinels.MaxAge is %v, must be whole milliseconds", s.MaxAge))
	}
	for i, a := range s.Addresses {
		errs = append(errs, checkHostPort("Sentinels.Addresses", a))
		if slices.Contains(s.Addresses[:i], a) {
			errs = append(errs, errors.New("a Sentinel is listed twice: it would be counted twice"))
		}
	}
	return oneline.Join(errs...)
}

// maxAge returns how long an answer counts by this machine's clock, which may be slower than the
// clock of the master that ends a quarantine.
func (s *Sentinels) maxAge() time.Duration { return s.MaxAge - s.MaxAge/maxAgeSlack }

// majority is a majority of the configured Sentinels, not of those that answer.
func (s *Sentinels) majority() int { return len(s.Addresses)/2 + 1 }

// sentinel returns the Config for one Sentinel. It is that of the master except for the
// credentials and TLS.
func (c Config) sentinel(address string) Config {
	s := c.Sentinels
	return Config{
		Name: "Sentinel " + address + " of " + c.Name, Network: "tcp", Address: address,
		Username: s.Username, Password: s.Password, Credentials: s.Credentials, TLS: s.TLS,
		ClientName: c.ClientName, Dial: c.Dial, DialTimeout: min(c.DialTimeout, s.MaxAge), HardTimeout: c.HardTimeout,
		RedialMin: c.RedialMin, RedialMax: c.RedialMax, Clock: c.Clock, Logger: c.Logger,
	}
}

// String returns the Sentinels without a password.
func (s Sentinels) String() string { return s.url(s.TLS != nil, "", 0) }

// GoString returns String, so that %#v does not show the password.
func (s Sentinels) GoString() string { return "pool.Sentinels(" + s.String() + ")" }

// LogValue returns String. A handler that encodes fields would otherwise see the password.
func (s Sentinels) LogValue() slog.Value { return slog.StringValue(s.String()) }

// url returns the URL of the master.
func (s *Sentinels) url(encrypted bool, user string, database int) string {
	if s.checkURLs() != nil {
		return notShown
	}
	scheme := schemeOf(sentinelScheme, encrypted)
	return fmt.Sprintf("%s://%s%s/%s/%d", scheme, user, strings.Join(s.Addresses, ","), s.Master, database)
}
