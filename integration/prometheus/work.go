package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

const (
	processes   = 2 // as it were
	workers     = 3 // in each
	invoices    = 3
	lease       = 500 * time.Millisecond
	settling    = 20 * time.Millisecond
	bookkeeping = 10 * time.Second // many leases: the lock is extended
)

// work lets workers contend for invoices, and one bookkeeper in each process for the ledger, while masters come and go. They are under the
// restart guard, so that the one that forgets its locks does not vote for a while. In the end, before the Lockers are closed, it calls then.
func work(ctx context.Context, long time.Duration, then func() error, opts ...redlock.Option) error {
	t := &cleanups{}
	defer t.end()
	q := redlocktest.New(t, 3)
	guard := redlock.WithRestartGuard(max(lease, long/8).Round(time.Millisecond))
	patient := redlock.WithNodeTimeout(10 * time.Second) // all nodes must answer, also on a busy machine
	if _, err := doctor.Admit(ctx, q.Locker(guard, patient)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var all sync.WaitGroup
	for range processes {
		locker := q.Locker(append(opts, guard)...)
		for range workers {
			all.Go(func() { worker(ctx, locker, invoice, settling) })
		}
		all.Go(func() { worker(ctx, locker, ledger, bookkeeping) })
	}
	all.Go(func() { troubles(ctx, q, long) })
	all.Wait()
	return errors.Join(then(), t.failure)
}

func invoice() string { return fmt.Sprintf("invoice/%d", rand.IntN(invoices)) }

func ledger() string { return "ledger" }

// worker does one piece of work after the other, each under a lock.
func worker(ctx context.Context, locker *redlock.Locker, name func() string, longest time.Duration) {
	for ctx.Err() == nil {
		_ = locker.Do(ctx, name(), lease, func(ctx context.Context, _ *redlock.Lock) error {
			pause(ctx, rand.N(longest))
			return nil
		}) // what went wrong is what the metrics are to show
	}
}

// troubles is a third of the time with one master down, which comes back empty, and then, after a while in peace, no quorum for some leases.
func troubles(ctx context.Context, q *redlocktest.Quorum, long time.Duration) {
	pause(ctx, long/6)
	q.Stop(2)
	pause(ctx, long/3)
	q.RestartEmpty(2)
	pause(ctx, long/6)
	q.Freeze(q.Majority()...)
	pause(ctx, min(4*lease, long/6))
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
