package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

const (
	workers   = 6 // in two processes, as it were
	invoices  = 3
	lease     = 500 * time.Millisecond
	longWork  = 20 * time.Millisecond
	processes = 2
)

// work lets workers contend for invoices while masters come and go.
func work(ctx context.Context, long time.Duration, opts ...redlock.Option) error {
	t := &cleanups{}
	defer t.end()
	q := redlocktest.New(t, 3)
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var all sync.WaitGroup
	for range processes {
		locker := q.Locker(opts...)
		for range workers / processes {
			all.Go(func() { worker(ctx, locker) })
		}
	}
	all.Go(func() { troubles(ctx, q, long) })
	all.Wait()
	return t.failure
}

// worker settles one invoice after the other.
func worker(ctx context.Context, locker *redlock.Locker) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("invoice/%d", rand.IntN(invoices))
		_ = locker.Do(ctx, name, lease, func(ctx context.Context, _ *redlock.Lock) error {
			pause(ctx, rand.N(longWork))
			return nil
		}) // what went wrong is what the metrics are to show
	}
}

// troubles is a third of the time with one master down, then, after a while in peace, none for longer than a lease.
func troubles(ctx context.Context, q *redlocktest.Quorum, long time.Duration) {
	pause(ctx, long/6)
	q.Stop(2)
	pause(ctx, long/3)
	q.RestartEmpty(2)
	pause(ctx, long/6)
	q.Freeze(q.Majority()...)
	pause(ctx, min(lease, long/6))
	q.Restore()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// cleanups stands in for the test that a quorum in memory is usually made for.
type cleanups struct {
	all     []func()
	failure error
}

func (c *cleanups) Helper() {}

func (c *cleanups) Cleanup(f func()) { c.all = append(c.all, f) }

func (c *cleanups) Fatalf(format string, args ...any) { c.failure = fmt.Errorf(format, args...) }

func (c *cleanups) end() {
	for _, f := range slices.Backward(c.all) {
		f()
	}
}
