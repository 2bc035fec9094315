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

// A contender is one goroutine.
type contender struct {
	number  int
	failed  int
	longest time.Duration
	turns   []Turn
	acquire stats.Recorder
	both    stats.Recorder
}

// contention runs goroutines that acquire the same few names.
func (r *Run) contention(ctx context.Context) (Result, error) {
	contenders := make([]*contender, r.spec.Goroutines)
	for i := range contenders {
		contenders[i] = &contender{number: i, turns: make([]Turn, 0, 1<<12)}
	}
	before, err := r.meter.read()
	if err != nil {
		return Result{}, err
	}
	limited, cancel := context.WithTimeout(ctx, r.spec.For)
	defer cancel()
	var all sync.WaitGroup
	began := time.Now()
	for _, c := range contenders {
		all.Go(func() {
			for limited.Err() == nil {
				r.contend(limited, c)
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
	return sumContenders(contenders, elapsed, after.sub(before)), nil
}

// contend is one turn. A turn that does not end within the time of the measurement does not count.
func (r *Run) contend(ctx context.Context, c *contender) {
	name := c.number
	if r.spec.Names > 0 {
		name = rand.IntN(r.spec.Names)
	}
	began := now()
	hold, err := r.clients[0].Acquire(ctx, "contended/"+strconv.Itoa(name))
	c.longest = max(c.longest, time.Duration(now()-began))
	if err != nil {
		if ctx.Err() == nil {
			c.failed++
		}
		return
	}
	t := Turn{Name: name, Goroutine: c.number, Acquired: now()}
	time.Sleep(r.spec.Hold)
	t.Released = now()
	if err := hold.Release(context.WithoutCancel(ctx)); err != nil {
		c.failed++
		return
	}
	ended := now()
	if ctx.Err() == nil {
		c.turns = append(c.turns, t)
		c.acquire.Add(time.Duration(t.Acquired - began))
		c.both.Add(time.Duration(t.Acquired - began + ended - t.Released))
	}
}

// sumContenders adds up what the contenders have recorded.
func sumContenders(contenders []*contender, elapsed time.Duration, cost Usage) Result {
	result := Result{Elapsed: elapsed, Cost: cost, Acquire: stats.Distribution{}, Both: stats.Distribution{}}
	for _, c := range contenders {
		result.Ops += len(c.turns)
		result.Failed += c.failed
		result.Longest = max(result.Longest, c.longest)
		result.Shares = append(result.Shares, len(c.turns))
		result.Turns = append(result.Turns, c.turns...)
		result.Acquire.Take(&c.acquire)
		result.Both.Take(&c.both)
	}
	return result
}
