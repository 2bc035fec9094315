//go:build unix

package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	queueTime = time.Second // until all goroutines are queued
	maxDrain  = 30 * time.Second
)

// waiters has all goroutines wait while another client holds the name, and counts what that costs.
// Then it measures how long it takes until all goroutines have held the name.
func (r *Run) waiters(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, queueTime+r.spec.For+maxDrain)
	defer cancel()
	const name = "wanted by all"
	hold, err := r.clients[1].Acquire(ctx, name)
	if err != nil {
		return Result{}, err
	}
	var all sync.WaitGroup
	var through atomic.Int64
	for range r.spec.Goroutines {
		all.Go(func() {
			if k, err := r.clients[0].Acquire(ctx, name); err == nil && k.Release(ctx) == nil {
				through.Add(1)
			}
		})
	}
	time.Sleep(queueTime)
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	time.Sleep(r.spec.For)
	after, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	released := time.Now()
	if err := hold.Release(ctx); err != nil {
		return Result{}, err
	}
	all.Wait()
	return Result{
		Ops:     int(through.Load()),
		Failed:  r.spec.Goroutines - int(through.Load()),
		Elapsed: r.spec.For,
		Cost:    after.sub(before),
		Drained: time.Since(released),
	}, nil
}
