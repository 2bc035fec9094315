package adapters

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	_ "github.com/quorumlock/go-redlock/pool/cluster" // its URLs
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

var (
	plainCommands    = []string{"set", "evalsha", "eval"}
	scriptedCommands = []string{"evalsha", "eval"} // the script runs the SET
)

// guardedTTL is the maximum TTL under the guard, unless a longer one is asked for. New servers that
// are not admitted would be quarantined for as long.
const guardedTTL = 10 * time.Second

var ours = []Kind{
	{Name: Ours, Sends: plainCommands, Open: openOurs(nil)},
	{Name: Ours + ", async release", Note: "does not wait for the release", Sends: plainCommands, Open: openOurs(
		[]redlock.LockOption{redlock.WithAsyncRelease()},
	)},
	{Name: Ours + ", fencing", Sends: scriptedCommands, Open: openOurs(nil, redlock.WithFencing())},
	{Name: Ours + ", fencing and guard", Sends: scriptedCommands, Open: openGuarded},
}

func openOurs(perLock []redlock.LockOption, opts ...redlock.Option) opener {
	return func(_ context.Context, servers []string, o Options) (Adapter, error) {
		opts := slices.Clone(opts)
		if o.NodeTimeout > 0 {
			opts = append(opts, redlock.WithNodeTimeout(o.NodeTimeout))
		}
		l, err := redlock.Open(urls(servers), opts...)
		if err != nil {
			return nil, err
		}
		return &own{locker: l, ttl: o.ttl(), opts: perLock}, nil
	}
}

// openGuarded admits servers that are new to the guard. They must be empty.
func openGuarded(ctx context.Context, servers []string, o Options) (Adapter, error) {
	opts := []redlock.Option{redlock.WithFencing(), redlock.WithRestartGuard(max(guardedTTL, o.ttl()))}
	if o.NodeTimeout > 0 {
		opts = append(opts, redlock.WithNodeTimeout(o.NodeTimeout))
	}
	l, err := redlock.Open(urls(servers), opts...)
	if err != nil {
		return nil, err
	}
	if l.Healthy(ctx) != nil {
		if _, err := doctor.Admit(ctx, l); err != nil {
			return nil, errors.Join(err, l.Close(ctx))
		}
	}
	return &own{locker: l, ttl: o.ttl()}, nil
}

func urls(servers []string) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		if all[i] = "redis://" + s; strings.Contains(s, ",") { // the members of a Cluster
			all[i] = "redis+cluster://" + s
		}
	}
	return all
}

// closeWithin bounds the undo of what is left at Close.
const closeWithin = 10 * time.Second

type own struct {
	locker *redlock.Locker
	ttl    time.Duration
	opts   []redlock.LockOption
}

func (o *own) Acquire(ctx context.Context, name string) (Hold, error) {
	k, err := o.locker.Acquire(ctx, name, o.ttl, o.opts...)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (o *own) Try(ctx context.Context, name string) (Hold, error) {
	k, err := o.locker.TryAcquire(ctx, name, o.ttl, o.opts...)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (o *own) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	return o.locker.Close(ctx)
}
