//go:build unix

package load

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/stats"
)

// A fighter is one goroutine that contends.
type fighter struct {
	number  int
	failed  int
	turns   []Turn
	acquire stats.Recorder
	both    stats.Recorder
}

// fight is goroutines that want the same few names.
func (r *Run) fight(ctx context.Context) (Result, error) {
	crew := make([]*fighter, r.spec.Goroutines)
	for i := range crew {
		crew[i] = &fighter{number: i, turns: make([]Turn, 0, 1<<12)}
	}
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, r.spec.For)
	defer cancel()
	var all sync.WaitGroup
	began := time.Now()
	for _, f := range crew {
		all.Go(func() {
			for limited.Err() == nil {
				r.contend(limited, f)
				time.Sleep(r.spec.Pause)
			}
		})
	}
	<-limited.Done()
	after, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	elapsed := time.Since(began)
	all.Wait()
	return fought(crew, elapsed, after.sub(before)), nil
}

// contend is one turn, unless the time is over before.
func (r *Run) contend(ctx context.Context, f *fighter) {
	name := rand.IntN(r.spec.Names)
	began := now()
	hold, err := r.clients[0].Acquire(ctx, "contended/"+strconv.Itoa(name))
	if err != nil {
		if ctx.Err() == nil {
			f.failed++
		}
		return
	}
	t := Turn{Name: name, Goroutine: f.number, Acquired: now()}
	time.Sleep(r.spec.Hold)
	t.Released = now()
	if err := hold.Release(context.WithoutCancel(ctx)); err != nil {
		f.failed++
		return
	}
	ended := now()
	if ctx.Err() == nil {
		f.turns = append(f.turns, t)
		f.acquire.Add(time.Duration(t.Acquired - began))
		f.both.Add(time.Duration(t.Acquired - began + ended - t.Released))
	}
}

func fought(crew []*fighter, elapsed time.Duration, cost Usage) Result {
	result := Result{Elapsed: elapsed, Cost: cost, Acquire: stats.Distribution{}, Both: stats.Distribution{}}
	for _, f := range crew {
		result.Ops += len(f.turns)
		result.Failed += f.failed
		result.Shares = append(result.Shares, len(f.turns))
		result.Turns = append(result.Turns, f.turns...)
		result.Acquire.Take(&f.acquire)
		result.Both.Take(&f.both)
	}
	return result
}
