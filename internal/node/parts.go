package node

import (
	"context"
	"log/slog"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/session"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Parts is what every node has. It does not change.
type Parts struct {
	*server.Shared
	Settings *transport.Settings // how its servers are reached; without an address if the kind has others
	Life     context.Context     // ends with the node
	Logger   *slog.Logger
}

// ServerConfig returns the settings of the server of one master. d says where to dial. Other kinds of nodes change them.
func (p *Parts) ServerConfig(d transport.Dialer) *server.Config {
	return &server.Config{
		Shared: p.Shared, Label: p.Name, Settings: p.Settings, Dialer: d,
		MayVote: func(string) error { return nil },
		Faults:  func(f command.Facts) []command.Fault { return session.Faults(p.Name, p.Settings.Database, f) },
		Ended:   func() {},
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
