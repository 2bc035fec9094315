// Package adapters gives every lock library the same interface. Each adapter uses its library as
// the library's documentation shows: it acquires a lock by name, waits for it if necessary, and
// releases it.
package adapters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Options are the options of [Kind.Open].
type Options struct {
	// Goroutines is the number of goroutines that will use the adapter.
	Goroutines int

	// TTL is the TTL of the locks. Zero means redsync's default of 8 s.
	TTL time.Duration

	// NodeTimeout is this library's timeout of a node. Zero means its default.
	NodeTimeout time.Duration

	// NoTracking says that the servers do not support CLIENT TRACKING. A library that uses it polls instead.
	NoTracking bool
}

func (o Options) ttl() time.Duration { return cmp.Or(o.TTL, 8*time.Second) }

// An Adapter is one client of a lock library, connected to all its servers. It is safe for concurrent use.
type Adapter interface {
	// Acquire acquires the lock for the TTL. It waits until ctx is done, and calls a library that
	// gives up earlier again.
	Acquire(ctx context.Context, name string) (Hold, error)

	// Try makes one attempt.
	Try(ctx context.Context, name string) (Hold, error)

	// Close closes the connections. No lock may be held.
	Close() error
}

// A Hold is one held lock.
type Hold interface {
	Release(ctx context.Context) error
}

// A Kind is one way of using a library.
type Kind struct {
	Name string

	// Note says how the kind differs from a lock over a quorum. It is empty for such a lock.
	Note string

	// OneServer reports that the kind locks on the first server only.
	OneServer bool

	// Limit reports that the kind is not a lock: it only shows what the commands cost, and cannot wait.
	Limit bool

	// Sends are the commands that the kind sends, as INFO commandstats names them. Other commands
	// run inside scripts.
	Sends []string

	// Open connects to the servers, which are given as host:port.
	Open opener
}

type opener func(ctx context.Context, servers []string, o Options) (Adapter, error)

// Names of the kinds that the others are compared with.
const (
	Ours      = "go-redlock"
	Measured  = Ours + ", metrics"
	Holding   = Ours + ", beside held locks"
	Yardstick = "redsync, redigo"
)

// Kinds returns all kinds. This library's come first.
func Kinds() []Kind {
	return slices.Concat(ours, redsyncs, []Kind{rueidisLock, bsmRedislock, fanout, pipeline})
}

// Find returns the kind with that name: of all kinds, or one of this library that is compared with itself only.
func Find(name string) (Kind, error) {
	kinds := append(Kinds(), services...)
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, fmt.Errorf("adapters: no adapter %q", name)
	}
	return kinds[i], nil
}
