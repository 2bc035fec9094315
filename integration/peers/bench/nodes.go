//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// mayEmpty returns an error if one of the servers of --nodes has a key, because the servers will be emptied.
func mayEmpty(ctx context.Context, nodes []string) error {
	return onEach(ctx, nodes, func(addr string, c redis.Conn) error {
		n, err := redis.Int(c.Do("DBSIZE"))
		if err == nil && n > 0 {
			err = fmt.Errorf("%s has %d keys and would be emptied: use empty servers", addr, n)
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

// deny applies an ACL rule to the user that clients have on the nodes.
func deny(ctx context.Context, nodes []string, rule string) error {
	if rule == "" {
		return nil
	}
	return onEach(ctx, nodes, func(_ string, c redis.Conn) error {
		_, err := c.Do("ACL", "SETUSER", "default", rule)
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
