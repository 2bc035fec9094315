package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// bsmRedislock is a lock on one server.
var bsmRedislock = Kind{
	Name:      "bsm/redislock",
	Note:      "one server",
	OneServer: true,
	Sends:     scriptedCommands,
	Open: func(_ context.Context, servers []string, o Options) (Adapter, error) {
		c := redis.NewClient(&redis.Options{Addr: servers[0]})
		return bsmClient{client: c, locks: redislock.New(c), ttl: o.ttl()}, nil
	},
}

type bsmClient struct {
	client *redis.Client
	locks  *redislock.Client
	ttl    time.Duration
}

// Acquire polls as the example in the library's documentation does.
func (c bsmClient) Acquire(ctx context.Context, name string) (Hold, error) {
	poll := redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	for {
		k, err := c.locks.Obtain(ctx, name, c.ttl, &poll)
		if err == nil {
			return k, nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) { // Obtain waits for at most one TTL
			return nil, err
		}
	}
}

func (c bsmClient) Try(ctx context.Context, name string) (Hold, error) {
	k, err := c.locks.Obtain(ctx, name, c.ttl, nil)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (c bsmClient) Close() error { return c.client.Close() }
