package pool

import (
	"context"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/pubsub"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// shape is what a node of any kind gives its Node: a master at a fixed address, one that Sentinels name, or a Cluster.
type shape interface {
	// Submit queues a command, and another one right behind it unless that is nil: see command.Node and server.Server.
	Submit(c, behind *command.Command) error
	// Subscribe returns a subscription without channels. It ends at the latest with the node, but only its own
	// Close waits for its goroutines.
	Subscribe(listener command.Listener) command.Subscription
	// servers returns the servers of the node: see door.ServersOf.
	servers(ctx context.Context) (door.Servers, error)
	// state adds the counters to s. It returns why the node would not vote now, or nil if it would, as far as it knows without asking
	// the server.
	state(s *Stats) (notVoting error)
	// close answers all commands, and returns when the goroutines have ended. It may be called more than once.
	close()
}

// master is the shape of one master. A Cluster has one for each of its masters.
type master struct {
	*server.Server
	cfg  *server.Config
	node *Node // of which it is a part
}

func newMaster(n *Node, cfg *server.Config) master { return master{server.New(cfg), cfg, n} }

// serverConfig returns the settings of a node's only server.
func (n *Node) serverConfig() *server.Config {
	return &server.Config{
		Name: n.cfg.Name, Label: n.cfg.Name, Settings: n.settings, Dialer: n.dialer, Database: n.cfg.Database, Queue: n.cfg.Queue,
		Proxied: n.cfg.Proxied, Shared: n.shared, Quarantined: n.quarantined,
	}
}

// Subscribe returns a subscription to the master.
func (m master) Subscribe(listener command.Listener) command.Subscription {
	return pubsub.New(m.node.life, m.cfg.Settings, greeting(m.cfg.Dialer, m.cfg.Settings), listener, m.node.log)
}

// greeting returns a function that dials for a subscription, a Sentinel or a Cluster's slot map. It authenticates only, because none of
// these uses facts or scripts. Its caller closes the connection.
func greeting(d transport.Dialer, s *transport.Settings) func(ctx context.Context) (*transport.Conn, error) {
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

func (m master) servers(context.Context) (door.Servers, error) {
	return door.Servers{All: []door.Server{m}}, nil
}

func (m master) state(s *Stats) (notVoting error) {
	if m.Up() {
		s.Connected++
	}
	s.Queued += m.Queued()
	s.Written += m.Written.Load()
	s.Writes += m.Writes.Load()
	s.Dials += m.Dials.Load()
	s.DialFailures += m.DialFailures.Load()
	s.Merged += m.Merged.Load()
	s.Unmerged += m.Unmerged.Load()
	s.Violations += m.Violations.Load()
	return m.WhyNotVoting()
}

func (m master) close() { m.Close() }
