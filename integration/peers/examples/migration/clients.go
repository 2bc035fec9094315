package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// client is one process of the service, before its migration or after it.
type client interface {
	String() string
	acquire(ctx context.Context, name string) (held, error) // waits for the name
	// try makes one attempt, which should be refused until then. It returns an error in any case.
	try(ctx context.Context, name string, until time.Time) error
	// refused reports whether an error of try says that another client holds the name.
	refused(err error) bool
}

// held is a lock, and when its validity ends.
type held struct {
	until   time.Time
	release func(context.Context) error
}

// granted returns the error for an attempt that is granted now, though it should be refused until then.
func granted(until time.Time) error {
	if late := time.Since(until); late >= 0 {
		return fmt.Errorf("the attempt was granted, %v after the exclusion ended", late)
	}
	return fmt.Errorf("%w: the attempt was granted", errNotExcluded)
}

// pools returns the connection pools of a process, which it has before its migration and after it.
func (v *service) pools() []*redis.Pool {
	list := make([]*redis.Pool, len(v.URLs))
	for i, url := range v.URLs {
		list[i] = &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, url, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
		}}
		v.closes = append(v.closes, func() { _ = list[i].Close() })
	}
	return list
}

// old is a process that uses redsync.
type old struct {
	who  string
	sync *redsync.Redsync
}

func (v *service) redsync(who string) *old {
	var drivers []driver.Pool
	for _, p := range v.pools() {
		drivers = append(drivers, redigo.NewPool(p))
	}
	return &old{who, redsync.New(drivers...)}
}

func (c *old) String() string { return c.who }

func (c *old) mutex(name string) *redsync.Mutex {
	return c.sync.NewMutex(name, redsync.WithExpiry(expiry), redsync.WithTries(1000), redsync.WithRetryDelay(20*time.Millisecond))
}

func (c *old) acquire(ctx context.Context, name string) (held, error) {
	m := c.mutex(name)
	if err := m.LockContext(ctx); err != nil {
		return held{}, err
	}
	return held{m.Until(), unlock(m)}, nil
}

func unlock(m *redsync.Mutex) func(context.Context) error {
	return func(ctx context.Context) error {
		if ok, err := m.UnlockContext(ctx); !ok {
			return errors.Join(errors.New("redsync: not unlocked"), err)
		}
		return nil
	}
}

func (c *old) try(ctx context.Context, name string, until time.Time) error {
	m := c.mutex(name)
	if err := m.TryLockContext(ctx); err != nil {
		return err
	}
	return errors.Join(granted(until), unlock(m)(ctx))
}

func (c *old) refused(err error) bool {
	var taken *redsync.ErrTaken
	return errors.As(err, &taken)
}

// ours is a process that uses this library.
type ours struct {
	who    string
	locker *redlock.Locker
}

// open returns a process that uses this library over the pools that it had before. The node names
// are the same in every process.
func (v *service) open(who string, opts func(nodes []string) []redlock.Option) (*ours, error) {
	var names []string
	var nodes []*pool.Node
	for i, p := range v.pools() {
		name := fmt.Sprintf("redis-%d", i)
		node, err := pool.Wrap(p, pool.Config{Name: name})
		if err != nil {
			return nil, err
		}
		names, nodes = append(names, name), append(nodes, node)
	}
	l, err := redlock.New(nodes, append(opts(names), redlock.WithOwner(who), redlock.WithNodeTimeout(patience))...)
	if err != nil {
		return nil, err
	}
	v.closes = append(v.closes, func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxTTL) // for a lock that is still held after a failed step
		defer cancel()
		_ = l.Close(ctx)
	})
	return &ours{who, l}, nil
}

func (c *ours) String() string { return c.who }

func (c *ours) acquire(ctx context.Context, name string) (held, error) {
	k, err := c.locker.Acquire(ctx, name, maxTTL)
	if err != nil {
		return held{}, err
	}
	return held{time.Now().Add(k.Remaining()), k.Release}, nil
}

func (c *ours) try(ctx context.Context, name string, until time.Time) error {
	k, err := c.locker.TryAcquire(ctx, name, maxTTL)
	if err != nil {
		return err
	}
	return errors.Join(granted(until), k.Release(ctx))
}

func (c *ours) refused(err error) bool { return errors.Is(err, redlock.ErrHeld) }

// states returns the guard state of each node, as this process sees it. The state is empty for a
// node without guard.
func (c *ours) states(ctx context.Context) ([]string, error) {
	r, err := doctor.Diagnose(ctx, c.locker)
	if err != nil {
		return nil, err
	}
	var states []string
	for _, n := range r.Nodes {
		states = append(states, n.Guard)
	}
	return states, nil
}

// guarded waits until every node votes. A quorum of nodes votes earlier.
func (c *ours) guarded(ctx context.Context) error {
	for {
		states, err := c.states(ctx)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(states, func(s string) bool { return s != "ok" }) {
			return nil
		}
		select {
		case <-time.After(maxTTL / 20):
		case <-ctx.Done():
			return fmt.Errorf("the nodes are %s: %w", states, context.Cause(ctx))
		}
	}
}
