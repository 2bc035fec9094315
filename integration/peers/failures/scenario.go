package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// A verdict is what a library did in a scenario.
type verdict struct {
	well  bool
	slow  bool   // a failure that a busy machine may cause
	label string // of a failure, for the table
	said  string
}

func well(format string, args ...any) verdict {
	return verdict{well: true, said: fmt.Sprintf(format, args...)}
}

func ill(label, format string, args ...any) verdict {
	return verdict{label: label, said: fmt.Sprintf(format, args...)}
}

func tooSlow(label, format string, args ...any) verdict {
	v := ill(label, format, args...)
	v.slow = true
	return v
}

// errDoesNotApply is returned by a scenario that the library cannot play.
var errDoesNotApply = errors.New("does not apply")

// A scenario is a fault in which some library was seen to fail. The numbers of its hazards are
// those of docs/dev/hazards.md.
type scenario struct {
	name   string
	hazard string
	nodes  int           // servers
	ttl    time.Duration // of locks
	quorum bool          // it needs a lock over several servers
	play   func(ctx context.Context, s *scene) (verdict, error)
}

// maxPlay bounds a scenario.
const maxPlay = 30 * time.Second

// A scene is a scenario with servers and a library.
type scene struct {
	scenario
	kind    adapters.Kind
	masters []*fakeredis.Master
	opened  []adapters.Adapter
}

// perform plays the scenario with one library.
func perform(ctx context.Context, what scenario, kind adapters.Kind) (v verdict, err error) {
	if what.quorum && kind.OneServer {
		return v, errDoesNotApply
	}
	ctx, cancel := context.WithTimeout(ctx, maxPlay)
	defer cancel()
	s := &scene{scenario: what, kind: kind}
	for i := range what.nodes {
		m, err := fakeredis.Start(fmt.Sprintf("m%d", i+1))
		if err != nil {
			return v, err
		}
		defer m.Close()
		s.masters = append(s.masters, m)
	}
	defer s.closeClients()
	return what.play(ctx, s)
}

// client opens one more client of the library. It returns when the client is connected and the
// servers have its scripts.
func (s *scene) client(ctx context.Context) (adapters.Adapter, error) {
	addrs := make([]string, len(s.masters))
	for i, m := range s.masters {
		addrs[i] = m.Addr()
	}
	c, err := s.kind.Open(ctx, addrs, adapters.Options{Goroutines: 4, TTL: s.ttl, NoTracking: true})
	if err != nil {
		return nil, err
	}
	s.opened = append(s.opened, c)
	for range 2 {
		hold, err := c.Acquire(ctx, "warm")
		if err != nil {
			return nil, fmt.Errorf("warming up: %w", err)
		}
		release(ctx, hold) // on a slow machine a short TTL may be over
	}
	return c, nil
}

// two opens two clients.
func (s *scene) two(ctx context.Context) (a, b adapters.Adapter, err error) {
	if a, err = s.client(ctx); err != nil {
		return nil, nil, err
	}
	b, err = s.client(ctx)
	return a, b, err
}

// closeClients closes the clients. Its errors do not matter: a client may fail to undo a lock on
// servers that are about to be closed.
func (s *scene) closeClients() {
	for _, m := range s.masters {
		m.Unfreeze()
		m.Hook(nil)
	}
	for _, c := range s.opened {
		_ = c.Close()
	}
}

// attempt makes one attempt, for at most d.
func attempt(ctx context.Context, c adapters.Adapter, d time.Duration) (adapters.Hold, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.Try(ctx, name)
}
