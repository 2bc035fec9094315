package pool

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/internal/node"
)

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
