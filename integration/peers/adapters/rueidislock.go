package adapters

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLock acquires two of three keys on one server, so it is not a Redlock. It extends its
// locks automatically.
var rueidisLock = Kind{
	Name:      "rueidislock",
	Note:      "three keys on one server",
	OneServer: true,
	Sends:     []string{"evalsha", "eval", "client|tracking"},
	Open: func(_ context.Context, servers []string, o Options) (Adapter, error) {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: servers[:1], ForceSingleClient: true, DisableCache: o.NoTracking},
			KeyValidity:    o.ttl(),
			NoLoopTracking: true, // as its documentation advises for Redis 7.0.5 and newer
		})
		if err != nil {
			return nil, err
		}
		return rueidisLocker{l}, nil
	},
}

type rueidisLocker struct{ locker rueidislock.Locker }

func (r rueidisLocker) Acquire(ctx context.Context, name string) (Hold, error) {
	_, cancel, err := r.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return canceller(cancel), nil
}

func (r rueidisLocker) Try(ctx context.Context, name string) (Hold, error) {
	_, cancel, err := r.locker.TryWithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return canceller(cancel), nil
}

func (r rueidisLocker) Close() error {
	r.locker.Close()
	return nil
}

type canceller context.CancelFunc

func (c canceller) Release(context.Context) error {
	c()
	return nil
}
