//go:build unix

package load

import (
	"context"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// crowd has all clients but one wait for a name that the last one holds. It measures how long it takes from the
// release until one of them holds the name, and what all of them send meanwhile.
func (r *Run) crowd(ctx context.Context) (Result, error) {
	const name = "wanted by many"
	holder, crowd := r.clients[len(r.clients)-1], r.clients[:len(r.clients)-1]
	hold, err := holder.Acquire(ctx, name)
	if err != nil {
		return Result{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, r.spec.For+maxDrain)
	defer cancel()
	next := make(chan acquired)
	var all sync.WaitGroup
	for _, c := range crowd {
		all.Go(func() {
			k, err := c.Acquire(waiting, name)
			select {
			case next <- acquired{k, time.Now(), err}:
			case <-waiting.Done():
				if err == nil {
					_ = k.Release(context.WithoutCancel(ctx)) // it came second
				}
			}
		})
	}
	time.Sleep(r.spec.For)
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	released := time.Now()
	if err := hold.Release(ctx); err != nil {
		return Result{}, err
	}
	first := <-next
	after, err := r.meter.read()
	cancel()
	all.Wait()
	if err != nil {
		return Result{}, err
	}
	if first.err != nil {
		return Result{}, first.err
	}
	result := Result{Ops: 1, Elapsed: first.at.Sub(released), Cost: after.sub(before), HandoffGaps: stats.Distribution{}}
	result.HandoffGaps.Add(result.Elapsed)
	return result, first.hold.Release(ctx)
}
