//go:build unix

package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// A worker is one goroutine with a name of its own. It has room for everything that it records.
type worker struct {
	name          string
	ops, failed   int
	lastErr       error
	acquire, both stats.Recorder
}

// warmRounds is how often every goroutine acquires and releases its name before the measurement, so
// all connections are dialled and the servers have the scripts. The first goroutine does so once
// alone, because some clients perform badly if all goroutines begin at once.
const warmRounds = 2

func (r *Run) warmUp(ctx context.Context) error {
	for _, c := range r.clients {
		workers := r.newWorkers()
		workers[0].turn(ctx, c)
		if _, err := together(workers, func(w *worker) {
			for range warmRounds {
				w.turn(ctx, c)
			}
		}); err != nil {
			return fmt.Errorf("load: warming up %s: %w", r.spec.Adapter, err)
		}
	}
	return nil
}

func (r *Run) newWorkers() []*worker {
	workers := make([]*worker, r.spec.Goroutines)
	for i := range workers {
		workers[i] = &worker{name: fmt.Sprintf("bench/%d", i)}
	}
	return workers
}

// together runs all workers at once. It returns the errors of workers that completed no operation.
func together(workers []*worker, work func(*worker)) (elapsed time.Duration, err error) {
	var all sync.WaitGroup
	began := time.Now()
	for _, w := range workers {
		all.Go(func() { work(w) })
	}
	all.Wait()
	elapsed = time.Since(began)
	for _, w := range workers {
		if w.ops == 0 {
			err = errors.Join(err, w.lastErr)
		}
	}
	return elapsed, err
}

// turn acquires the worker's name and releases it.
func (w *worker) turn(ctx context.Context, c adapters.Adapter) (ended time.Time) {
	began := time.Now()
	hold, err := c.Acquire(ctx, w.name)
	held := time.Now()
	if err == nil {
		err = hold.Release(ctx)
	}
	ended = time.Now()
	if err != nil {
		w.failed, w.lastErr = w.failed+1, err
		return ended
	}
	w.ops++
	w.acquire.Add(held.Sub(began))
	w.both.Add(ended.Sub(began))
	return ended
}

// uncontended runs goroutines that acquire a name of their own each.
func (r *Run) uncontended(ctx context.Context) (Result, error) {
	workers := r.newWorkers()
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	until := time.Now().Add(r.spec.For)
	elapsed, err := together(workers, func(w *worker) {
		next := time.Now().Add(rand.N(max(1, r.spec.Every)))
		for more := true; more; next = next.Add(r.spec.Every) {
			time.Sleep(time.Until(next)) // not at all if it is late
			more = w.turn(ctx, r.clients[0]).Before(until) && ctx.Err() == nil
		}
	})
	if err != nil {
		return Result{}, err
	}
	after, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	result := Result{Elapsed: elapsed, Cost: after.sub(before), Acquire: stats.Distribution{}, Both: stats.Distribution{}}
	for _, w := range workers {
		result.Ops += w.ops
		result.Failed += w.failed
		result.Shares = append(result.Shares, w.ops)
		result.Acquire.Take(&w.acquire)
		result.Both.Take(&w.both)
	}
	return result, nil
}
