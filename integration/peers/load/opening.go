//go:build unix

package load

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// opening makes clients one after the other. Each acquires and releases one name. Closing a client
// counts for the usage only.
func (r *Run) opening(ctx context.Context) (Result, error) {
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	w := worker{name: "bench/0"}
	result := Result{Acquire: stats.Distribution{}, Both: stats.Distribution{}}
	for began := time.Now(); time.Since(began) < r.spec.For; {
		took, err := r.openOnce(ctx, &w)
		if err != nil {
			return Result{}, err
		}
		result.Elapsed += took
	}
	after, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	result.Ops, result.Cost, result.Shares = w.ops, after.sub(before), []int{w.ops}
	result.Acquire.Take(&w.acquire)
	result.Both.Take(&w.both)
	return result, nil
}

// openOnce returns how long it took until the name was released.
func (r *Run) openOnce(ctx context.Context, w *worker) (took time.Duration, err error) {
	began := time.Now()
	c, err := r.kind.Open(ctx, r.spec.Servers, adapters.Options{Goroutines: 1})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	hold, err := c.Acquire(ctx, w.name)
	if err != nil {
		return 0, err
	}
	held := time.Now()
	if err := hold.Release(ctx); err != nil {
		return 0, err
	}
	took = time.Since(began)
	w.ops++
	w.acquire.Add(held.Sub(began))
	w.both.Add(took)
	return took, nil
}
