package main

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
)

// careless is a client with every defect that the scenarios look for. It has one token for all
// attempts, and takes half of the servers for a majority. It ignores how long an attempt took, and
// sets expiry times by the client's clock. Its extensions create keys, and it undoes nothing.
var careless = adapters.Kind{
	Name: "careless",
	Open: func(_ context.Context, servers []string, o adapters.Options) (adapters.Adapter, error) {
		c := &carelessClient{ttl: o.TTL, token: time.Now().String()}
		for _, addr := range servers {
			c.pools = append(c.pools, &redis.Pool{MaxIdle: 4, Dial: func() (redis.Conn, error) {
				return redis.Dial("tcp", addr, redis.DialReadTimeout(600*time.Millisecond))
			}})
		}
		return c, nil
	},
}

type carelessClient struct {
	pools []*redis.Pool
	ttl   time.Duration
	token string
}

var errHeld = errors.New("held")

// count sends a command to one server after the other, and returns how many granted it.
func (c *carelessClient) count(cmd string, args ...any) (granted int) {
	for _, p := range c.pools {
		conn := p.Get()
		if reply, err := conn.Do(cmd, args...); err == nil && reply != nil && reply != int64(0) {
			granted++
		}
		_ = conn.Close()
	}
	return granted
}

const (
	remove = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

// Try takes half of the servers for a majority. It undoes an attempt that fewer servers granted.
func (c *carelessClient) Try(_ context.Context, name string) (adapters.Hold, error) {
	granted := c.count("SET", name, c.token, "NX", "PXAT", time.Now().Add(c.ttl).UnixMilli())
	if 2*granted >= len(c.pools) {
		return &carelessHold{c, name}, nil
	}
	if granted > 0 {
		c.count("EVAL", remove, 1, name, c.token)
	}
	return nil, errHeld
}

func (c *carelessClient) Acquire(ctx context.Context, name string) (adapters.Hold, error) {
	for {
		if k, err := c.Try(ctx, name); err == nil {
			return k, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *carelessClient) Close() error { return nil }

type carelessHold struct {
	c    *carelessClient
	name string
}

func (h *carelessHold) Release(context.Context) error {
	h.c.count("EVAL", remove, 1, h.name, h.c.token)
	return nil
}

// ExtendBy sets the key again, or deletes it if ttl is below a millisecond.
func (h *carelessHold) ExtendBy(_ context.Context, ttl time.Duration) error {
	if ttl < time.Millisecond {
		h.c.count("PEXPIRE", h.name, 0)
		return nil
	}
	h.c.count("SET", h.name, h.c.token, "PX", ttl.Milliseconds())
	return nil
}
