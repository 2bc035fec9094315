//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// mayEmpty is an error when one of the servers given by --nodes holds a key: they are emptied.
func mayEmpty(ctx context.Context, nodes []string) error {
	return onEach(ctx, nodes, func(addr string, c redis.Conn) error {
		n, err := redis.Int(c.Do("DBSIZE"))
		if err == nil && n > 0 {
			err = fmt.Errorf("%s holds %d keys, and would be emptied: give servers that are for this alone", addr, n)
		}
		return err
	})
}

func empty(ctx context.Context, nodes []string) error {
	return onEach(ctx, nodes, func(_ string, c redis.Conn) error {
		_, err := c.Do("FLUSHDB")
		return err
	})
}

func onEach(ctx context.Context, nodes []string, do func(addr string, c redis.Conn) error) error {
	for _, addr := range nodes {
		c, err := redis.DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		if err := errors.Join(do(addr, c), c.Close()); err != nil {
			return err
		}
	}
	return nil
}
