package node

import (
	"context"
	"crypto/tls"
	"net/url"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Kind is a kind of nodes with its settings: a *sentinel.Config or a *cluster.Config with all defaults, which its user can't change any
// more. It does not change.
type Kind interface {
	Configured // of itself, so that it can take the place of the settings that it was made from

	// Traits returns what a coordinator must know, without Recovery.
	Traits() command.NodeKind
	// DefaultName returns the name of a node without one: see pool.Config.DefaultName.
	DefaultName(database int) string
	// Check returns what is wrong with its settings, and which settings of the node exclude this kind. An error shows no URL: see
	// ErrIsURL.
	Check(s *transport.Settings, proxied bool) error
	// URL returns how the node is reached, without a password.
	URL(encrypted bool, user string, database int) string
	// WithTLS returns the settings with another TLS configuration of servers that only this kind has.
	WithTLS(config TLS) Configured
	// Open begins to dial. It does not wait for a server.
	Open(p *Parts) Shape
}

// TLS returns the TLS configuration of a dial.
type TLS = func(ctx context.Context) (*tls.Config, error)

// Shape is what a node of any kind gives its pool.Node: a master at a fixed address, one that Sentinels name, or a Cluster.
type Shape interface {
	// Submit queues a command, and another one right behind it unless that is nil: see command.Node and server.Server.
	Submit(c, behind *command.Command) error
	// Subscribe returns a subscription without channels. It ends at the latest with the node, but only its own
	// Close waits for its goroutines.
	Subscribe(listener command.Listener) command.Subscription
	// Servers returns the servers of the node: one, or the masters of a Cluster, once its slot map is known.
	Servers(ctx context.Context) (Servers, error)
	// State adds the counters to s. It returns why the node would not vote now, or nil if it would, as far as it knows without asking
	// the server.
	State(s *Stats) (notVoting error)
	// End answers all commands, and returns when the goroutines have ended. It may be called more than once.
	End()
}

// Scheme makes a kind of nodes from the hosts of a URL, those behind the first one in more, from its path, and from the settings behind
// the question mark. It removes its own from these. It returns the part of the path that is the database.
type Scheme func(u *url.URL, more []string, path string, settings map[string]string, encrypted TLS) (k Configured, database string, err error)

// Configured is a *sentinel.Config or a *cluster.Config: see pool.Kind.
type Configured interface{ NodeKind() Kind }

// Schemes has the schemes of the kinds that the program imports, without the s of TLS. An init function adds its own.
var Schemes = make(map[string]Scheme)

// Of returns what a *pool.Node, or a Locker's node, is made of. Package pool sets it.
var Of func(n any) (*Parts, Shape)
