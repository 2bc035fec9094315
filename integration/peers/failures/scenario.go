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
	well bool
	said string
}

func well(format string, args ...any) verdict { return verdict{true, fmt.Sprintf(format, args...)} }
func ill(format string, args ...any) verdict  { return verdict{false, fmt.Sprintf(format, args...)} }

// errDoesNotApply is what a scenario returns of a library that it can't be put to.
var errDoesNotApply = errors.New("does not apply")

// A scenario is a fault in which some library was seen to fail. HAZARDS numbers are those of docs/dev/hazards.md.
type scenario struct {
	name   string
	hazard string
	right  string        // what a library should do
	nodes  int           // masters
	ttl    time.Duration // of locks
	quorum bool          // it needs a lock over several masters
	play   func(ctx context.Context, s *scene) (verdict, error)
}

// within bounds a scenario.
const within = 30 * time.Second

// A scene is a scenario with masters and a library.
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
	ctx, cancel := context.WithTimeout(ctx, within)
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
	defer s.leave()
	return what.play(ctx, s)
}

// client opens one more client of the library. Its connections stand, and the masters know its scripts.
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
		giveBack(ctx, hold) // on a slow machine a short TTL may be over
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

// leave closes the clients. What they could not undo on masters that go away is no matter any more.
func (s *scene) leave() {
	for _, m := range s.masters {
		m.Unfreeze()
		m.Hook(nil)
	}
	for _, c := range s.opened {
		_ = c.Close()
	}
}

// attempt is one try, for at most d.
func attempt(ctx context.Context, c adapters.Adapter, d time.Duration) (adapters.Hold, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	return c.Try(ctx, name)
}
