//go:build unix

package load

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// opening makes clients one after the other. Each acquires and releases one name. Closing a client does
// not count, except for the usage.
func (r *Run) opening(ctx context.Context) (Result, error) {
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	w := worker{name: "bench/0"}
	result := Result{Acquire: stats.Distribution{}, Both: stats.Distribution{}}
	for began := time.Now(); result.Elapsed < r.spec.For; result.Elapsed = time.Since(began) {
		if err := r.openOnce(ctx, &w); err != nil {
			return Result{}, err
		}
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

func (r *Run) openOnce(ctx context.Context, w *worker) (err error) {
	began := time.Now()
	c, err := r.kind.Open(ctx, r.spec.Servers, adapters.Options{Goroutines: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	hold, err := c.Acquire(ctx, w.name)
	if err != nil {
		return err
	}
	held := time.Now()
	if err := hold.Release(ctx); err != nil {
		return err
	}
	w.ops++
	w.acquire.Add(held.Sub(began))
	w.both.Add(time.Since(began))
	return nil
}
