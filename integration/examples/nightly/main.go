// Command nightly shows a job that many machines start at midnight, and that one of them runs.
//
// The machines' clocks differ, so the machines do not start together. The job is quick. Without
// WithMinHold it would end, and its name would be free, before midnight by the last clock: the job
// would run again. With WithMinHold the name stays held for longer than the clocks differ, although
// the job ends much earlier.
//
// The machines wait for the lock by Do, which also waits while there is no quorum of nodes. One
// context bounds how long a machine waits and works. The minimum hold is longer than that bound and
// the difference of the clocks together, so no waiting machine gets the lock tonight: each gives
// up, and its error names the holder. A job that fails is not repeated tonight either. If it should
// be, it has to retry inside.
//
//	go run ./examples/nightly                  on three servers inside this process
//	go run ./examples/nightly --nodes URLs     on your servers; commas separate the URLs
//
// Exit status: 0 if the job ran once, 1 if it did not, 2 for wrong usage.
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
	apart     = 100 * time.Millisecond // by which the clocks of two neighbours differ
	allowance = 8 * time.Second        // for waiting and for the job itself
	minHold   = time.Minute            // more than allowance + machines × apart
	lease     = 10 * time.Second       // a dead machine's lock would expire after it, if minHold did not keep the name

	nodeTimeout = 5 * time.Second // the example may run on a busy machine
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

// night is one run of the job on all machines.
type night struct {
	*show.Stage
	job     string // the lock's name, another one each night
	reports atomic.Int32
}

// machine is what each machine does at midnight by its own clock. It has its own Locker.
func (n *night) machine(ctx context.Context, name string, behind time.Duration) error {
	locker, err := redlock.Open(n.URLs, redlock.WithOwner(name), redlock.WithNodeTimeout(nodeTimeout))
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
	if held := redlock.HeldBy(err); held != nil {
		n.Say("  %s  at %v past midnight: leaves it to %s", name, behind, held.Owner)
		return nil
	}
	return err
}

// report is the job. It takes no time.
func (n *night) report(ctx context.Context) error {
	n.reports.Add(1)
	return ctx.Err()
}
