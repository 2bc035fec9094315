package pool

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/node"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// Wrap makes a node from a redigo pool that a service already has. It dials with the pool's
// DialContext, or Dial, and so with its address, TLS and password. It dials its own connections
// and borrows none, because locks must not wait for the service's other work. The pool's limits,
// TestOnBorrow and timeouts do not apply to them. With Dial alone a dial that hangs cannot be
// cancelled; Stats.HangingDials counts such goroutines. Close does not close the pool.
//
// cfg needs a Name, and has no field that says how to dial: no address, credentials, TLS, Dial
// or Kind. Its Database is the one that the pool's dial selects. A connection with
// another database does not vote, because locks in two databases do not exclude each other.
//
// Replies are not bounded on these connections, because the pool's dial hides the socket: redigo
// allocates what a reply announces, so one hostile reply can end the process. A node made by Open
// does not have this weakness.
func Wrap(p *redis.Pool, cfg Config) (*Node, error) {
	cfg, err := wrapConfig(p, cfg)
	if err != nil {
		return nil, err
	}
	n := newNode(&cfg)
	n.wrapped = true
	n.openMaster(transport.NewWrapped(n.parts.Settings, p, &n.hanging))
	return n, nil
}

// wrapConfig returns the Config of a wrapped pool, with a placeholder for the address, which the
// pool knows alone.
func wrapConfig(p *redis.Pool, cfg Config) (Config, error) {
	if err := node.NotURL("the name", cfg.Name); err != nil {
		return Config{}, fmt.Errorf("pool: Wrap: %w", err)
	}
	switch {
	case cfg.Name == "":
		return Config{}, errors.New("pool: Wrap needs a name for the node")
	case p == nil:
		return Config{}, fmt.Errorf("pool: Wrap(%q): the pool is nil", cfg.Name)
	case p.DialContext == nil && p.Dial == nil:
		return Config{}, fmt.Errorf("pool: Wrap(%q): the pool has neither DialContext nor Dial", cfg.Name)
	case cfg.dials():
		return Config{}, fmt.Errorf("pool: Wrap(%q): the wrapped pool dials, so the Config must not say how", cfg.Name)
	}
	cfg.Address = "wrapped:0" // it is never dialled, and only satisfies the check of the Config
	return cfg.withDefaults()
}

// dials reports whether the Config has a field that says how to dial.
func (c Config) dials() bool {
	return c.Network != "" || c.Address != "" || c.Username != "" || c.Password != "" || c.Credentials != nil ||
		c.TLS != nil || c.Dial != nil || c.Kind != nil
}
