package adapters

import (
	"context"
	"errors"
	"slices"

	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	rueidisdriver "github.com/go-redsync/redsync/v4/redis/rueidis"
	redigoclient "github.com/gomodule/redigo/redis"
	goredisclient "github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// redsyncs are redsync with each of its clients that is still maintained.
var redsyncs = []Kind{
	{Name: Yardstick, Sends: plainCommands, Open: openRedsync(dialRedigo)},
	{Name: "redsync, redigo, fail fast", Sends: plainCommands, Open: openRedsync(dialRedigo, redsync.WithFailFast(true))},
	{Name: "redsync, go-redis", Sends: plainCommands, Open: openRedsync(dialGoRedis)},
	{Name: "redsync, rueidis", Sends: plainCommands, Open: openRedsync(dialRueidis)},
}

// RedsyncWith returns redsync over redigo with more options.
func RedsyncWith(name string, opts ...redsync.Option) Kind {
	return Kind{Name: name, Sends: plainCommands, Open: openRedsync(dialRedigo, opts...)}
}

// A connection is a pool for one server, as redsync uses it.
type connection struct {
	pool  driver.Pool
	close func() error
}

type dialer func(server string, o Options) (connection, error)

func openRedsync(dial dialer, opts ...redsync.Option) opener {
	return func(_ context.Context, servers []string, o Options) (Adapter, error) {
		s := &redsyncClient{opts: append(slices.Clone(opts), redsync.WithExpiry(o.ttl()))}
		pools := make([]driver.Pool, len(servers))
		for i, server := range servers {
			c, err := dial(server, o)
			if err != nil {
				return nil, errors.Join(err, s.Close())
			}
			pools[i] = c.pool
			s.closers = append(s.closers, c.close)
		}
		s.sync = redsync.New(pools...)
		return s, nil
	}
}

// dialRedigo keeps a connection for each goroutine, so no connection is dialled during a measurement.
func dialRedigo(server string, o Options) (connection, error) {
	p := redigoPool(server, o)
	return connection{pool: redigo.NewPool(p), close: p.Close}, nil
}

func redigoPool(server string, o Options) *redigoclient.Pool {
	// redsync bounds an attempt by a twentieth of the expiry. Its adapter for redigo does not
	// enforce that bound, and a frozen server would block a caller forever.
	nodeTimeout := o.ttl() / 20
	return &redigoclient.Pool{
		MaxIdle: o.Goroutines,
		DialContext: func(ctx context.Context) (redigoclient.Conn, error) {
			return redigoclient.DialContext(
				ctx, "tcp", server,
				redigoclient.DialConnectTimeout(nodeTimeout),
				redigoclient.DialReadTimeout(nodeTimeout),
				redigoclient.DialWriteTimeout(nodeTimeout),
			)
		},
	}
}

func dialGoRedis(server string, _ Options) (connection, error) {
	c := goredisclient.NewClient(&goredisclient.Options{Addr: server})
	return connection{pool: goredis.NewPool(c), close: c.Close}, nil
}

func dialRueidis(server string, o Options) (connection, error) {
	c, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{server}, ForceSingleClient: true, DisableCache: o.NoTracking})
	if err != nil {
		return connection{}, err
	}
	return connection{
		pool:  rueidisdriver.NewPool(rueidiscompat.NewAdapter(c)),
		close: func() error { c.Close(); return nil },
	}, nil
}

type redsyncClient struct {
	sync    *redsync.Redsync
	opts    []redsync.Option
	closers []func() error
}

func (c *redsyncClient) Acquire(ctx context.Context, name string) (Hold, error) {
	for {
		m := c.sync.NewMutex(name, c.opts...)
		err := m.LockContext(ctx)
		if err == nil {
			return redsyncHold{m}, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

func (c *redsyncClient) Try(ctx context.Context, name string) (Hold, error) {
	m := c.sync.NewMutex(name, c.opts...)
	if err := m.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncHold{m}, nil
}

func (c *redsyncClient) Close() error {
	var errs []error
	for _, closeOne := range c.closers {
		errs = append(errs, closeOne())
	}
	return errors.Join(errs...)
}

type redsyncHold struct{ mutex *redsync.Mutex }

// extend has no ttl, because a Mutex always uses the same.
func (h redsyncHold) extend(ctx context.Context) error {
	ok, err := h.mutex.ExtendContext(ctx)
	if !ok && err == nil {
		err = errors.New("redsync: not extended")
	}
	return err
}

func (h redsyncHold) Release(ctx context.Context) error {
	_, err := h.mutex.UnlockContext(ctx)
	return err
}
