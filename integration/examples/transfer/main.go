// Command transfer shows transfers that lock two accounts at once, and a database that checks their fences.
//
// Workers move money between accounts, many at the same time. AcquireAll locks both accounts or
// none, in any order, so two workers that move money in opposite directions cannot deadlock. One
// worker is paused between reading the balances and writing them, for longer than its lease.
// Another worker moves money meanwhile, so what the paused worker would write is wrong, and it
// cannot notice that in time. The fence protects the accounts: the lock has one fence for both
// accounts, each account stores the largest fence that it has seen, and the transaction that writes
// checks it. The paused worker is turned away and starts again. In the end the total is unchanged.
//
//	go run ./examples/transfer                  on three servers inside this process
//	go run ./examples/transfer --nodes URLs     on your servers; commas separate the URLs
//
// Exit status: 0 if the scenario ended as described, 1 if it did not, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/integration/examples/show"
)

const (
	prefix    = "example:transfer:" // of the locks' keys; the name of a lock is that of its account
	lease     = time.Second
	opening   = 100 // each account's first balance
	workers   = 4
	transfers = 10 // of each worker
)

var accounts = []string{"alice", "bob", "carol"}

func main() { os.Exit(show.Run("transfer", play, os.Args[1:], os.Stdout, os.Stderr)) }

func play(ctx context.Context, s *show.Stage) error {
	dir, err := os.MkdirTemp("", "transfer")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b, err := openBank(ctx, filepath.Join(dir, "bank.db"), accounts, opening)
	if err != nil {
		return err
	}
	defer func() { _ = b.db.Close() }()
	if err := pausedWorker(ctx, s, b); err != nil {
		return err
	}
	if err := manyWorkers(ctx, s, b); err != nil {
		return err
	}
	sum, least, err := b.total(ctx)
	if err != nil {
		return err
	}
	s.Say("All accounts together hold %d, as at the beginning.", sum)
	if sum != opening*len(accounts) || least < 0 {
		return fmt.Errorf("the accounts hold %d, and one of them %d", sum, least)
	}
	return nil
}

// pausedWorker shows a worker that writes too late.
func pausedWorker(ctx context.Context, s *show.Stage, b *bank) error {
	slow, err := newWorker("slow", s.URLs, b)
	if err != nil {
		return err
	}
	defer slow.close()
	quick, err := newWorker("quick", s.URLs, b)
	if err != nil {
		return err
	}
	defer quick.close()

	pause := func() error {
		s.Say("  slow   has read the balances, and is paused for longer than its lease of %v", lease)
		err := quick.transfer(ctx, "alice", "bob", 30, nil)
		s.Say("  quick  moves 30 from alice to bob")
		return err
	}
	err = slow.transfer(ctx, "bob", "alice", 50, pause)
	s.Say("  slow   wants to move 50 from bob to alice: %v", err)
	if !errors.Is(err, errTurnedAway) {
		return errors.New("the late transfer was not turned away")
	}
	s.Say("  slow   starts again")
	return slow.transfer(ctx, "bob", "alice", 50, nil)
}

// manyWorkers moves money between all accounts, with all workers at once.
func manyWorkers(ctx context.Context, s *show.Stage, b *bank) error {
	errs := make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			w, err := newWorker(fmt.Sprintf("worker-%d", i+1), s.URLs, b)
			if err != nil {
				errs[i] = err
				return
			}
			defer w.close()
			errs[i] = w.work(ctx)
		})
	}
	all.Wait()
	s.Say("  %d workers have made %d transfers between %d accounts", workers, workers*transfers, len(accounts))
	return errors.Join(errs...)
}
