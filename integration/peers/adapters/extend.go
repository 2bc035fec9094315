package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"github.com/quorumlock/go-redlock/redlock"
)

// ErrNoExtend is returned if the library cannot extend a lock on request, or not by another TTL.
var ErrNoExtend = errors.New("adapters: lock cannot be extended this way")

// Extend extends a lock that was acquired for ttl. The new TTL is another, which may equal ttl.
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
