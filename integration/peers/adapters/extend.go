package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/quorumlock/go-redlock/redlock"
)

// ErrNoExtend says that the library has no way to extend a lock when its holder says so, or not for another TTL.
var ErrNoExtend = errors.New("adapters: can't be extended so")

// Extend extends a lock that was taken for ttl, by another ttl or by the same.
func Extend(ctx context.Context, h Hold, ttl, another time.Duration) error {
	switch h := h.(type) {
	case *redlock.Lock:
		return h.Extend(ctx, another)
	case *redislock.Lock:
		return h.Refresh(ctx, another, nil)
	case redsyncHold:
		if another == ttl {
			return h.extend(ctx)
		}
	case interface {
		ExtendBy(ctx context.Context, ttl time.Duration) error
	}:
		return h.ExtendBy(ctx, another)
	}
	return ErrNoExtend
}
