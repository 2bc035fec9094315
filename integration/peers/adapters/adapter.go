// Package adapters gives every lock library the same face, each in the way that its own documents show: what one user would write who
// takes a lock by name, waits for it if need be, and gives it back.
package adapters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// Options are how a contestant is opened.
type Options struct {
	// Goroutines are how many will use it.
	Goroutines int

	// TTL is what it takes its locks for. Zero means redsync's default of 8 s.
	TTL time.Duration

	// NoTracking: the servers know no CLIENT TRACKING. Who relies on it polls.
	NoTracking bool
}

func (o Options) ttl() time.Duration { return cmp.Or(o.TTL, 8*time.Second) }

// A Adapter is one client of a lock library, connected to all its servers. It is safe for concurrent use.
type Adapter interface {
	// Acquire takes the lock for the TTL, and waits for it until ctx is done. A library that gives up by itself is asked again.
	Acquire(ctx context.Context, name string) (Hold, error)

	// Try asks once.
	Try(ctx context.Context, name string) (Hold, error)

	// Close gives the connections back. No lock may be held.
	Close() error
}

// A Hold is one lock held.
type Hold interface {
	Release(ctx context.Context) error
}

// A Kind is a library in one way of using it.
type Kind struct {
	Name string

	// Note says what has to be known to compare it. Empty for a lock over a quorum.
	Note string

	// OneServer: it locks on the first server alone.
	OneServer bool

	// Limit: it is no lock, and only shows what commands cost. It can't wait.
	Limit bool

	// Sends are the commands that it sends itself, as INFO commandstats names them. Others are run inside of scripts.
	Sends []string

	// Open connects to servers by host:port.
	Open opener
}

type opener func(ctx context.Context, servers []string, o Options) (Adapter, error)

// Names of the kinds that others are compared with.
const (
	Ours      = "go-redlock"
	Yardstick = "redsync, redigo"
)

// Kinds are all contestants, this library's first.
func Kinds() []Kind {
	return slices.Concat(ours, redsyncs, []Kind{rueidisLock, bsmRedislock, fanout, pipeline})
}

// Find returns the kind of that name.
func Find(name string) (Kind, error) {
	kinds := Kinds()
	i := slices.IndexFunc(kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, fmt.Errorf("adapters: no adapter %q", name)
	}
	return kinds[i], nil
}
