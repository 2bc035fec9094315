// Command nightly shows a job that every machine of a fleet starts at midnight, and that one of them runs.
//
// Their clocks differ, so that they do not start together. The job is quick: without WithMinHold it would be over, and its name free,
// before the last clock has struck, and it would run again. With it the name stays taken for a time that no clock is behind by, though
// the job's lock is released long before.
//
// The machines wait for the lock by Do, which also bridges a moment without a quorum of masters. How long a machine waits and works is
// bounded by one context. The minimum hold is longer than that and all that the clocks differ by, and so nobody who waits gets the lock
// tonight: he gives up, and the error says by whom the name is held. A job that fails is not repeated tonight either: one that should be
// must do so itself, inside.
//
//	go run ./examples/nightly                  three masters inside of this process
//	go run ./examples/nightly --nodes URLs     yours, with commas between them
//
// Exit status: 0 when the job ran once, 1 when it did not, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	machines  = 5
	apart     = 100 * time.Millisecond // the clocks of two machines
	allowance = 3 * time.Second        // for waiting and for the job itself
	minHold   = time.Minute            // more than allowance + machines × apart
	lease     = 10 * time.Second       // how soon others know that a machine has died, were it not for minHold
)

func main() { os.Exit(show.Run("nightly", play, os.Args[1:], os.Stdout, os.Stderr)) }

func play(ctx context.Context, s *show.Stage) error {
	n := &night{Stage: s, job: "example:nightly:" + time.Now().Format(time.RFC3339Nano)}
	failures := make([]error, machines)
	var all sync.WaitGroup
	for i := range machines {
		all.Go(func() { failures[i] = n.machine(ctx, fmt.Sprintf("m%d", i+1), time.Duration(i)*apart) })
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if times := n.reports.Load(); times != 1 {
		return fmt.Errorf("the report was written %d times", times)
	}
	s.Say("%d machines, and the report was written once.", machines)
	return nil
}

// night is one date of the job.
type night struct {
	*show.Stage
	job     string // the lock's name: another one each night
	reports atomic.Int32
}

// machine is what each machine does, with a Locker of its own, at midnight by its own clock.
func (n *night) machine(ctx context.Context, name string, behind time.Duration) error {
	locker, err := redlock.Open(n.URLs, redlock.WithOwner(name))
	if err != nil {
		return err
	}
	defer func() { _ = locker.Close(ctx) }()
	time.Sleep(behind)

	ctx, cancel := context.WithTimeout(ctx, allowance)
	defer cancel()
	err = locker.Do(ctx, n.job, lease, func(ctx context.Context, _ *redlock.Lock) error {
		n.Say("  %s  at %v past midnight: writes the report", name, behind)
		return n.report(ctx)
	}, redlock.WithMinHold(minHold))
	var held *redlock.HeldError
	if errors.As(err, &held) {
		n.Say("  %s  at %v past midnight: leaves it to %s", name, behind, held.Owner)
		return nil
	}
	return err
}

// report is the work. It is done in no time.
func (n *night) report(ctx context.Context) error {
	n.reports.Add(1)
	return ctx.Err()
}
