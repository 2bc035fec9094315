package sentinel

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/named"
	"github.com/quorumlock/go-redlock/internal/node"
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
func (c Config) String() string { return c.url(c.TLS != nil, "", 0) }

// GoString returns String's result in the form of %#v, which must not show the password either.
func (c Config) GoString() string { return "sentinel.Config(" + c.String() + ")" }

// LogValue returns String's result, so a handler that encodes fields does not see the password.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// url returns how the master is reached, without a password.
func (c *Config) url(encrypted bool, user string, database int) string {
	if c.checkURLs() != nil {
		return node.NotShown
	}
	return fmt.Sprintf("%s://%s%s/%s/%d", node.SchemeOf(scheme, encrypted), node.UserPart(user), strings.Join(c.Addresses, ","), c.Master, database)
}

// checkURLs refuses settings that may be URLs with a password, which errors and String would show.
func (c *Config) checkURLs() error {
	return cmp.Or(node.NotURL("sentinel.Config.Master", c.Master), named.NoURLs("sentinel.Config.Addresses", c.Addresses))
}

// maxAge returns how long an answer counts by this machine's clock, which may be slower than the
// clock of the master that ends a quarantine.
func (c *Config) maxAge() time.Duration { return c.MaxAge - c.MaxAge/maxAgeSlack }

// majority is a majority of the configured Sentinels, not of those that answer.
func (c *Config) majority() int { return len(c.Addresses)/2 + 1 }

// settings returns how one Sentinel is reached: as the master, except for the credentials and TLS.
func (c *Config) settings(master *transport.Settings, address string) *transport.Settings {
	s := master.At(address)
	s.Database = 0
	s.Username, s.Password, s.Credentials, s.TLS = c.Username, c.Password, c.Credentials, c.TLS
	s.DialTimeout = min(s.DialTimeout, c.MaxAge)
	return s
}
