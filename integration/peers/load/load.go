//go:build unix

// Package load runs work on an adapter and counts its cost, including that of the whole process:
// nothing else may run in it.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// A Shape says what the goroutines do.
type Shape string

// The shapes.
const (
	Uncontended Shape = "uncontended" // each goroutine acquires and releases a name of its own
	Contention  Shape = "contention"  // each acquires one of a few names, holds it for a while, and pauses
	Herd        Shape = "herd"        // as Contention; there are many processes, and what counts is how long each waits
	Handoff     Shape = "handoff"     // two clients take turns: one waits while the other holds
	Waiters     Shape = "waiters"     // all wait for one name for a while, and then acquire it one after the other
	Crowd       Shape = "crowd"       // clients that share nothing wait for one name; what counts is what one release costs
	Opening     Shape = "opening"     // one client after the other is made, and acquires and releases one name
)

// A Spec is one measurement.
type Spec struct {
	Adapter    string
	Shape      Shape
	Goroutines int
	Clients    int           // in a Crowd, those that wait
	Names      int           // in a Contention; 0: each goroutine has one of its own
	Hold       time.Duration // in a Contention
	Pause      time.Duration // in a Contention, after each turn
	Every      time.Duration // if Uncontended, the time between two operations of a goroutine begin; 0: they follow at once
	For        time.Duration // the duration
	Servers    []string      // the addresses that the adapter connects to
	Asked      []string      // the servers whose counters are read
	PIDs       []int         // of the servers' processes, if they run on this machine
}

// A Result is what was measured.
type Result struct {
	Ops     int           // operations: acquire and release
	Failed  int           // operations that failed
	Elapsed time.Duration // from the first operation to the last
	Cost    Usage

	Acquire     stats.Distribution // time until the lock was held
	Both        stats.Distribution // the same and the time of the release, without the time between them
	Shares      []int              // operations of each goroutine
	Turns       []Turn             // in a Contention
	HandoffGaps stats.Distribution // from the call of Release to the next holder
	Drained     time.Duration      // Waiters: from the release until all have held the lock
	Longest     time.Duration      // in a Contention, the longest wait, also of those that had not ended
}

// A Turn is one hold in a Contention. Its times are read from a clock that all processes of the
// machine share.
type Turn struct {
	Name, Goroutine    int
	Acquired, Released int64 // in ns: when the lock was held, and when Release was called
}

// A Run is a measurement that is ready to begin. All its clients are connected.
type Run struct {
	spec    Spec
	kind    adapters.Kind
	clients []adapters.Adapter
	meter   meter
}

// Prepare connects as many clients as the shape needs, and warms them up.
func Prepare(ctx context.Context, spec Spec) (*Run, error) {
	kind, err := adapters.Find(spec.Adapter)
	if err != nil {
		return nil, err
	}
	m, err := newMeter(spec, kind)
	if err != nil {
		return nil, err
	}
	r := &Run{spec: spec, kind: kind, meter: m}
	clients := 1
	options := adapters.Options{Goroutines: spec.Goroutines}
	switch spec.Shape {
	case Handoff, Waiters:
		clients = 2
	case Crowd:
		clients, options.TTL = spec.Clients+1, spec.For+time.Minute
	}
	for range clients {
		c, err := kind.Open(ctx, spec.Servers, options)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.clients = append(r.clients, c)
	}
	return r, r.warmUp(ctx)
}

// Measure runs the work and returns its result.
func (r *Run) Measure(ctx context.Context) (Result, error) {
	switch r.spec.Shape {
	case Uncontended:
		return r.uncontended(ctx)
	case Contention, Herd:
		return r.contention(ctx)
	case Handoff:
		return r.handoff(ctx)
	case Waiters:
		return r.waiters(ctx)
	case Crowd:
		return r.crowd(ctx)
	case Opening:
		return r.opening(ctx)
	}
	return Result{}, fmt.Errorf("load: unknown shape %q", r.spec.Shape)
}

// Close closes the clients.
func (r *Run) Close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, r.meter.close())...)
}
