package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Parts is what every node has. It does not change.
type Parts struct {
	Name        string
	Settings    *transport.Settings // how its servers are reached; without an address if the kind has others
	Queue       int                 // bounds the commands that wait to be written to each server
	Proxied     bool
	Shared      *server.Shared
	Life        context.Context // ends with the node
	Logger      *slog.Logger
	Log         func(msg string, err error) // logs an event of the node's connections
	Quarantined func(left time.Duration) error
}

// ServerConfig returns the settings of a node's only server. d says where to dial.
func (p *Parts) ServerConfig(d transport.Dialer) *server.Config {
	return &server.Config{
		Name: p.Name, Label: p.Name, Settings: p.Settings, Dialer: d, Database: p.Settings.Database, Queue: p.Queue,
		Proxied: p.Proxied, Shared: p.Shared, Quarantined: p.Quarantined,
	}
}

// Greeting returns a function that dials for a subscription, a Sentinel or a Cluster's slot map. It authenticates only, because none of
// these uses facts or scripts. Its caller closes the connection.
func Greeting(d transport.Dialer, s *transport.Settings) func(ctx context.Context) (*transport.Conn, error) {
	return func(ctx context.Context) (*transport.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, s.DialTimeout)
		defer cancel()
		conn, err := d.Dial(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := conn.Greet(ctx); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
}
