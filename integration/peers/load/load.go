//go:build unix

// Package load puts work on a contestant and counts what that costs, in the process that it runs in: nothing else may run there.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// A Shape is what the goroutines do.
type Shape string

// The shapes.
const (
	Uncontended Shape = "uncontended" // each goroutine takes and gives back a name of its own
	Contention  Shape = "contention"  // all take one of a few names, hold it for a while, and pause
	Handoff     Shape = "handoff"     // two take turns: one waits while the other holds
	Waiters     Shape = "waiters"     // all wait for one name for a while, and then have it one after the other
)

// A Spec is one measurement.
type Spec struct {
	Adapter    string
	Shape      Shape
	Goroutines int
	Names      int           // of a Contention
	Hold       time.Duration // in a Contention
	Pause      time.Duration // in a Contention, after each turn
	For        time.Duration // how long it goes on
	Servers    []string      // as the contestant is to reach them
	Asked      []string      // those that are asked for their counters
	PIDs       []int         // of the servers' processes, where they are on this machine
}

// A Result is what was measured. Of several processes they are added up.
type Result struct {
	Ops     int           // acquired and released
	Failed  int           // neither
	Elapsed time.Duration // from the first to the last
	Cost    Usage

	Acquire     stats.Distribution // how long until it was held
	Both        stats.Distribution // … and given back, without the hold between
	Shares      []int              // of each goroutine
	Turns       []Turn             // of a Contention
	HandoffGaps stats.Distribution // from the call of Release to the next holder
	Drained     time.Duration      // Waiters: from the release until all had it
}

// A Turn is one hold of a Contention. Times are of a clock that all processes of the machine share.
type Turn struct {
	Name, Goroutine    int
	Acquired, Released int64 // ns; when it was held, and when Release was called
}

// A Run is a measurement that is about to begin: everything is connected.
type Run struct {
	spec    Spec
	clients []adapters.Adapter
	meter   meter
}

// Prepare connects as many clients as the shape needs, and does a little of the work.
func Prepare(ctx context.Context, spec Spec) (*Run, error) {
	kind, err := adapters.Find(spec.Adapter)
	if err != nil {
		return nil, err
	}
	m, err := newMeter(spec, kind)
	if err != nil {
		return nil, err
	}
	r := &Run{spec: spec, meter: m}
	clients := 1
	if spec.Shape == Handoff || spec.Shape == Waiters {
		clients = 2
	}
	for range clients {
		c, err := kind.Open(ctx, spec.Servers, adapters.Options{Goroutines: spec.Goroutines})
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.clients = append(r.clients, c)
	}
	return r, r.warmUp(ctx)
}

// Measure does the work.
func (r *Run) Measure(ctx context.Context) (Result, error) {
	switch r.spec.Shape {
	case Uncontended:
		return r.uncontended(ctx)
	case Contention:
		return r.contention(ctx)
	case Handoff:
		return r.handoff(ctx)
	case Waiters:
		return r.waiters(ctx)
	}
	return Result{}, fmt.Errorf("load: there is no shape %q", r.spec.Shape)
}

// Close disconnects.
func (r *Run) Close() error {
	var errs []error
	for _, c := range r.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(append(errs, r.meter.close())...)
}
