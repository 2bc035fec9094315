//go:build unix

package load

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/adapters"
	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// acquired is the result of a waiting client.
type acquired struct {
	hold adapters.Hold
	at   time.Time
	err  error
}

// handoff has two clients, which share nothing in this process, acquire one name in turns. Each
// holds the name long enough for the other to be waiting.
func (r *Run) handoff(ctx context.Context) (Result, error) {
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	const name = "handed over"
	hold, err := r.clients[0].Acquire(ctx, name)
	if err != nil {
		return Result{}, err
	}
	result := Result{HandoffGaps: stats.Distribution{}, Shares: make([]int, 2)}
	began := time.Now()
	for turn := 1; time.Since(began) < r.spec.For; turn++ {
		next := make(chan acquired, 1)
		go func() {
			k, err := r.clients[turn%2].Acquire(ctx, name)
			next <- acquired{k, time.Now(), err}
		}()
		time.Sleep(20*time.Millisecond + rand.N(20*time.Millisecond))
		released := time.Now()
		if err := hold.Release(ctx); err != nil {
			return Result{}, err
		}
		n := <-next
		if n.err != nil {
			return Result{}, n.err
		}
		hold = n.hold
		result.HandoffGaps.Add(n.at.Sub(released))
		result.Ops++
		result.Shares[turn%2]++
	}
	result.Elapsed = time.Since(began)
	after, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	result.Cost = after.sub(before)
	return result, hold.Release(ctx)
}
