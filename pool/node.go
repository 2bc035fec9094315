package pool

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/server"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Node is one unit of the vote: a Redis master, a master behind Sentinels, or a Cluster. It dials
// in the background from Open on, and again whenever its connection ends. It is safe for
// concurrent use.
type Node struct {
	cfg     *Config // a pointer, so that fmt does not print its fields; never changed
	parts   *node.Parts
	shape   node.Shape
	wrapped bool // a service's pool says where to dial
	stop    context.CancelFunc
	hanging atomic.Int64 // dials of a wrapped pool that were given up and have not returned yet
}

// Open makes a node with its own connections. It returns an error only for a wrong Config, never
// because the server cannot be reached.
func Open(cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := newNode(&cfg)
	if cfg.Kind != nil {
		n.shape = cfg.Kind.NodeKind().Open(n.parts)
	} else {
		n.openMaster(n.parts.Settings)
	}
	return n, nil
}

// newNode makes a node without a shape.
func newNode(cfg *Config) *Node {
	n := &Node{cfg: cfg}
	life, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.parts = &node.Parts{
		Shared: server.NewShared(cfg.Clock, &server.Shared{
			Name: cfg.Name, Queue: cfg.Queue, Proxied: cfg.Proxied, Log: node.NewLog(cfg.Name, cfg.Logger), Quarantined: n.quarantined,
		}),
		Settings: cfg.transport(), Life: life, Logger: cfg.Logger,
	}
	return n
}

// openMaster begins to dial a node's only master.
func (n *Node) openMaster(d transport.Dialer) {
	m := node.NewMaster(n.parts, n.parts.ServerConfig(d))
	n.shape = m
	m.Start()
}

// Name returns the node's name in votes, errors and logs.
func (n *Node) Name() string { return n.cfg.Name }

// String returns the node's address without its password. For a node made by Wrap it returns
// the name, because the address is unknown.
func (n *Node) String() string {
	if n.wrapped {
		return n.cfg.Name
	}
	return n.cfg.String()
}

// GoString returns what String returns, for %#v. It reads no field that changes.
func (n *Node) GoString() string { return "pool.Node(" + n.String() + ")" }

// Close ends the connections and answers the commands in flight: unsent ones as Failed, sent ones
// as Unknown. It does not wait for the server, so a frozen one does not delay it. It returns when
// all goroutines have ended, except hanging dials of a wrapped pool. It may be called more than
// once.
func (n *Node) Close() error {
	n.shape.End()
	n.stop()
	n.parts.Wait(n.cfg.Clock, n.cfg.DialTimeout)
	return nil
}

// quarantined returns the error of a node that the restart guard quarantines for so much longer.
func (n *Node) quarantined(left time.Duration) error {
	return &QuarantineError{Node: n.cfg.Name, Remaining: left}
}
