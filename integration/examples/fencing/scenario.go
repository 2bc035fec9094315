package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/integration/examples/show"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	account = "example:fencing:account" // the lock's name
	lease   = time.Second

	before = 100
	ofA    = 10 // what the workers take in
	ofB    = 50
)

// story is what happens to one bank.
type story struct {
	*show.Stage
	bank *bank
}

// worker takes money in.
type worker struct {
	name   string
	locker *redlock.Locker
}

// play is the story: A reads and is paused, B works, A goes on.
func (s *story) play(ctx context.Context) error {
	if s.bank.checks() {
		s.Say("With the check in the database:\n  %s", fenced)
	} else {
		s.Say("Without a check:\n  %s", blind)
	}
	a, err := openWorker("A", s.URLs)
	if err != nil {
		return err
	}
	defer a.close()
	b, err := openWorker("B", s.URLs)
	if err != nil {
		return err
	}
	defer b.close()

	meanwhile := func() error {
		s.Say("  A  is paused for longer than its lease of %v", lease)
		return s.takeIn(ctx, b, ofB, nil)
	}
	err = s.takeIn(ctx, a, ofA, meanwhile)
	turnedAway := errors.Is(err, errTurnedAway)
	if turnedAway {
		s.Say("  A  begins again")
		err = s.takeIn(ctx, a, ofA, nil)
	}
	if err != nil {
		return err
	}
	return s.end(ctx, turnedAway)
}

// takeIn adds to the balance under the lock. pause is what happens between the reading and the writing, and the worker looks at nothing
// in between: however soon before the writing it looked, the pause could come behind that.
func (s *story) takeIn(ctx context.Context, w *worker, amount int, pause func() error) error {
	lock, err := w.locker.Acquire(ctx, account, lease)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release(ctx) }() // ErrLost, where the lease is over
	balance, err := s.bank.read(ctx)
	if err != nil {
		return err
	}
	s.Say("  %s  holds the lock with fence %d, reads %d", w.name, lock.Fence(), balance)
	if pause != nil {
		if err := pause(); err != nil {
			return err
		}
		s.Say("  %s  goes on; its lease has been over for %v", w.name, (-lock.Remaining()).Round(time.Millisecond))
	}
	if err := s.bank.write(ctx, balance+amount, lock.Fence(), lock.ID()); err != nil {
		s.Say("  %s  wants to write %d: %v", w.name, balance+amount, err)
		return err
	}
	s.Say("  %s  writes %d", w.name, balance+amount)
	return nil
}

// end compares what is there with what should be.
func (s *story) end(ctx context.Context, turnedAway bool) error {
	balance, err := s.bank.read(ctx)
	if err != nil {
		return err
	}
	want, told := before+ofA, fmt.Sprintf("B's %d are lost, and nobody was told", ofB)
	if s.bank.checks() {
		want, told = before+ofA+ofB, "nothing is lost"
	}
	if balance != want || turnedAway != s.bank.checks() {
		return fmt.Errorf("a balance of %d instead of %d; the paused worker was turned away: %t", balance, want, turnedAway)
	}
	s.Say("  In the end the account holds %d: %s.\n", balance, told)
	return nil
}

// close waits a moment for what is being undone.
func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	_ = w.locker.Close(ctx)
}
