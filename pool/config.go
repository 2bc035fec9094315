package pool

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Config configures one node: how to reach its master, and the timeouts and bounds of its
// connections. The zero value of every setting means the default. A Config is a value: changing it
// after [Open] changes nothing. Printing a Config shows no password. Package fmt calls no methods on
// unexported fields: it prints a Config in such a field with its password.
type Config struct {
	// Name is the node's name in errors and votes, of 1 to 255 printable bytes. It must
	// not be a URL: a name that contains "://" or "@" is refused, unless it is the default.
	// Defaults to host:port/database, or path/database for a unix socket. With Sentinels it
	// defaults to master@host:port/database, with the address of the first Sentinel in sorted
	// order, and for a Cluster to cluster@host:port likewise.
	Name string

	// Network is "tcp" or "unix". Defaults to "tcp".
	Network string

	// Address is host:port, or the socket's path. It has no default, and must be empty
	// with a Kind. It must not be a URL, which may contain a password: an
	// address that contains "://" or "@" is refused, and not shown. An absolute path may
	// contain "@". [ParseURL] reads URLs.
	Address string

	// Kind, unless nil, makes the node something else than one master at a fixed address: a
	// *sentinel.Config, whose Sentinels name the master, or a *cluster.Config, a Redis Cluster.
	// Address must be empty, Network must not be "unix", and Proxied not be set. A Cluster has
	// only Database 0. Username, Password, TLS and the other settings are those of every server
	// that may become the master, or of every member. Dial also dials the Sentinels. Copies of a
	// Config share the Kind. Defaults to nil.
	Kind Kind

	// Username and Password are sent with AUTH at every dial. If both are empty no AUTH is
	// sent. A Password alone is that of the default user.
	Username, Password string

	// Credentials is called at every dial, and replaces Username and Password, so passwords
	// can rotate without a restart. It must return when ctx is done. An error fails the
	// dial, which is tried again. It may be called concurrently. Defaults
	// to nil.
	Credentials func(ctx context.Context) (user, password string, err error)

	// TLS is called at every dial, like Credentials, so certificates can rotate without
	// a restart. A configuration without a ServerName verifies
	// the host of Address. Defaults to nil: no TLS.
	TLS func(ctx context.Context) (*tls.Config, error)

	// Database is selected on every connection, 0 to 2,147,483,647. All clients of a
	// lock must use the same one. Defaults to 0.
	Database int

	// ClientName is sent with CLIENT SETNAME, of 1 to 128 printable ASCII characters
	// without a space. Defaults to "go-redlock".
	ClientName string

	// Dial makes the connections, for example through a tunnel or in a test. Its arguments are
	// Network and Address, or the addresses of Sentinels and those that they name, or of members
	// of a Cluster. It must return when ctx is done. It may be called concurrently. TLS, if set,
	// runs over its connections. A connection must accept some kilobytes before its peer reads
	// them, as sockets do and net.Pipe does not. Its Close must end a Read and a Write that block.
	// On a socket that File and Fd made blocking it does not: set options in
	// net.Dialer.Control. Defaults to nil: a net.Dialer with keep-alive.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// DialTimeout bounds a whole dial with TLS and handshake, 1 ms to 5 min. It bounds no
	// caller, which waits no longer than its node timeout. Defaults to 5 s.
	DialTimeout time.Duration

	// HardTimeout is how long a connection may be silent while answers are due before
	// it is closed, 1 ms to 5 min. Defaults to 5 s.
	HardTimeout time.Duration

	// RedialMin is the pause before the second dial in a row. The pause doubles up to
	// RedialMax, and has jitter. Both are 1 ms to 5 min, and default to 10 ms and 500 ms. A
	// connection that ended within a second, or within RedialMax if that is more, counts as a
	// failed dial. After it the pause may grow to at least 500 ms. After a connection that
	// lasted longer the server is dialled at once.
	RedialMin, RedialMax time.Duration

	// Queue is how many commands may wait to be written to each server, 1 to
	// 1,048,576; one more fails at once. Defaults to 16,384.
	Queue int

	// Proxied tells the node that the server is behind a proxy which reconnects on its own.
	// Then no older connection is killed: what its acquires make late is deleted every few seconds. With
	// the restart guard every script verifies the server again, because the server behind the
	// proxy may change during a connection. Defaults to false.
	Proxied bool

	// Clock measures the timeouts. Defaults to clock.System().
	Clock clock.Clock

	// Logger receives the events of connections, never a password. It is also told, once, if the server
	// keeps no append-only file and a Locker without the restart guard uses the node. Defaults to nil,
	// which logs nothing.
	Logger *slog.Logger
}

// Kind is what a node is if it is not one master: a *sentinel.Config or a *cluster.Config, of the packages
// pool/sentinel and pool/cluster. A program links only the kinds that it imports.
type Kind interface {
	// NodeKind is for this package. Its type is internal, so no other package has a Kind.
	NodeKind() node.Kind
}

// The bounds of Config's fields.
const (
	maxQueue      = 1 << 20
	maxClientName = 128
)

// withDefaults fills in the defaults and checks the result. The error contains everything that is
// wrong. The defaults come first, because the bounds apply to them as well.
func (c Config) withDefaults() (Config, error) {
	c = c.withAllDefaults()
	err := c.check()
	switch {
	case errors.Is(err, node.ErrIsURL): // the default name may be made of that URL, which may contain a password
		return c, fmt.Errorf("pool: %w", err)
	case err != nil:
		return c, fmt.Errorf("pool: node %q: %w", c.Name, err)
	}
	return c, nil
}

// withAllDefaults fills in the defaults. It copies the Kind, so a caller that changes it later
// changes nothing here.
func (c Config) withAllDefaults() Config {
	c.Network = cmp.Or(c.Network, "tcp")
	c.ClientName = cmp.Or(c.ClientName, "go-redlock")
	c.DialTimeout = cmp.Or(c.DialTimeout, 5*time.Second)
	c.HardTimeout = cmp.Or(c.HardTimeout, 5*time.Second)
	// If only one of the two is set, the default of the other one moves with it.
	c.RedialMin = cmp.Or(c.RedialMin, min(10*time.Millisecond, cmp.Or(c.RedialMax, node.MaxWait)))
	c.RedialMax = cmp.Or(c.RedialMax, max(500*time.Millisecond, c.RedialMin))
	c.Queue = cmp.Or(c.Queue, 16384)
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Kind != nil {
		c.Kind = c.Kind.NodeKind()
	}
	c.Name = cmp.Or(c.Name, c.DefaultName())
	return c
}

// DefaultName returns the node's name if Name is empty. Clients of the same locks must give a node
// the same name, because the restart guard compares names. So a default name depends on neither the
// order of a list of addresses nor the user.
func (c Config) DefaultName() string {
	if c.Kind != nil {
		return c.Kind.NodeKind().DefaultName(c.Database)
	}
	return c.Address + "/" + strconv.Itoa(c.Database)
}

// check returns what is wrong with a Config, all of it in one error, so that a user does not mend
// one setting after the other.
func (c Config) check() error {
	return oneline.Join(
		c.checkName(),
		c.checkAddress(),
		node.CheckText("Name", c.Name, node.MaxName, node.Printable),
		node.CheckText("ClientName", c.ClientName, maxClientName, node.Graphic),
		node.InRange("Database", c.Database, 0, math.MaxInt32),
		node.InRange("DialTimeout", c.DialTimeout, node.MinWait, node.MaxWait),
		node.InRange("HardTimeout", c.HardTimeout, node.MinWait, node.MaxWait),
		node.InRange("RedialMin", c.RedialMin, node.MinWait, node.MaxWait),
		node.InRange("RedialMax", c.RedialMax, max(node.MinWait, c.RedialMin), node.MaxWait),
		node.InRange("Queue", c.Queue, 1, maxQueue),
	)
}

// checkName refuses a name that is a URL, because it may contain a password: names appear in
// errors, logs and metrics.
func (c Config) checkName() error {
	if c.Name == c.DefaultName() { // made of addresses, which checkAddress checks
		return nil
	}
	return node.NotURL("Name", c.Name)
}

// checkAddress returns what is wrong with the address, or with the Kind. It looks for URLs first: the other errors
// quote the address, and a URL may contain a password.
func (c Config) checkAddress() error {
	if err := c.addressIsURL(); err != nil {
		return err
	}
	switch {
	case c.Kind != nil:
		return c.Kind.NodeKind().Check(c.transport(), c.Proxied)
	case c.Network != "tcp" && c.Network != "unix":
		return node.BadSetting("Network", c.Network, "tcp or unix")
	case c.Address == "":
		return node.BadSetting("Address", "", "host:port or the path of a socket")
	case c.Network == "unix" || c.Dial != nil:
		return nil
	}
	return node.CheckHostPort("Address", c.Address)
}

// addressIsURL rejects a URL as the address. The absolute path of a socket may contain "@",
// which also marks the abstract namespace of Linux.
func (c Config) addressIsURL() error {
	address := c.Address
	if c.Network == "unix" {
		address = strings.TrimPrefix(address, "@")
		if strings.HasPrefix(address, "/") {
			address = strings.ReplaceAll(address, "@", "")
		}
	}
	return node.NotURL("Address", address)
}

// transport returns the settings of the node's connections.
func (c *Config) transport() *transport.Settings {
	where := ""
	// Other parts of a text have the address: the name of the node, or what says who named it.
	if !strings.Contains(c.Name, c.Address) && c.Kind == nil {
		where = " to " + c.String()
	}
	return &transport.Settings{
		Network: c.Network, Address: c.Address, Connect: c.Dial, TLS: c.TLS,
		Username: c.Username, Password: c.Password, Credentials: c.Credentials, Database: c.Database, ClientName: c.ClientName,
		DialTimeout: c.DialTimeout, HardTimeout: c.HardTimeout, RedialMin: c.RedialMin, RedialMax: c.RedialMax,
		Clock: c.Clock, Where: where,
	}
}

// String returns how the master is reached, as a URL without the password.
func (c Config) String() string {
	if c.addressIsURL() != nil {
		return node.NotShown
	}
	switch {
	case c.Kind != nil:
		return c.Kind.NodeKind().URL(c.TLS != nil, c.Username, c.Database)
	case c.Network == "unix":
		return fmt.Sprintf("unix://%s%s?db=%d", node.UserPart(c.Username), c.Address, c.Database)
	}
	return node.MasterURL(c.TLS != nil, c.Username, c.Address, c.Database)
}

// SetTLS sets the TLS of all servers of the node, and of its Sentinels. It comes after a Kind was set, and replaces
// that by a copy with all defaults, so it changes no other Config.
func (c *Config) SetTLS(config func(ctx context.Context) (*tls.Config, error)) {
	c.TLS = config
	if c.Kind != nil {
		c.Kind = c.Kind.NodeKind().WithTLS(config)
	}
}

// GoString returns String's result in the form of %#v, which must not show the password either.
func (c Config) GoString() string { return "pool.Config(" + c.String() + ")" }

// LogValue returns String's result, so a handler that encodes fields does not see the password.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }
