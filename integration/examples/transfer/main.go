// Command transfer shows transfers that lock two accounts at once, and a database that checks their fences.
//
// Tellers move money between accounts, many at the same time. AcquireAll takes both accounts or none, whichever way the money goes, so
// that two tellers who move it against each other can't wait for each other for ever. One teller is paused between reading the balances
// and writing them, for longer than its lease; somebody else has moved money by then. What it would write is wrong, and nobody can tell it
// in time. The fence can: the lock has one for both accounts, each account remembers the largest it has seen, and the transaction that
// writes checks it. The late teller is turned away and begins again. In the end not a cent is lost or made.
//
//	go run ./examples/transfer                  three masters inside of this process
//	go run ./examples/transfer --nodes URLs     yours, with commas between them
//
// Exit status: 0 when it went as told, 1 when it did not, 2 for wrong usage.
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
	prefix    = "example:transfer:" // of the locks' keys: an account's lock has its name
	lease     = time.Second
	opening   = 100 // each account's first balance
	tellers   = 4
	transfers = 10 // of each teller
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
	if err := pausedTeller(ctx, s, b); err != nil {
		return err
	}
	if err := manyTellers(ctx, s, b); err != nil {
		return err
	}
	sum, least, err := b.total(ctx)
	if err != nil {
		return err
	}
	s.Say("All accounts together hold %d, as in the beginning.", sum)
	if sum != opening*len(accounts) || least < 0 {
		return fmt.Errorf("the accounts hold %d, and one of them %d", sum, least)
	}
	return nil
}

// pausedTeller is the story of one who goes on too late.
func pausedTeller(ctx context.Context, s *show.Stage, b *bank) error {
	slow, err := newTeller("slow", s.URLs, b)
	if err != nil {
		return err
	}
	defer slow.close()
	quick, err := newTeller("quick", s.URLs, b)
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
		return errors.New("it should have been turned away")
	}
	s.Say("  slow   begins again")
	return slow.transfer(ctx, "bob", "alice", 50, nil)
}

// manyTellers move money to and fro, all at once.
func manyTellers(ctx context.Context, s *show.Stage, b *bank) error {
	errs := make([]error, tellers)
	var all sync.WaitGroup
	for i := range tellers {
		all.Go(func() {
			t, err := newTeller(fmt.Sprintf("teller-%d", i+1), s.URLs, b)
			if err != nil {
				errs[i] = err
				return
			}
			defer t.close()
			errs[i] = t.work(ctx)
		})
	}
	all.Wait()
	s.Say("  %d tellers have made %d transfers between %d accounts", tellers, tellers*transfers, len(accounts))
	return errors.Join(errs...)
}
