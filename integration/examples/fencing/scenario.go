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
	ofA    = 10 // what each worker deposits
	ofB    = 50
)

// scenario is one run against one bank.
type scenario struct {
	*show.Stage
	bank *bank
}

// worker makes deposits.
type worker struct {
	name   string
	locker *redlock.Locker
}

// play runs the scenario: A reads and is paused, B makes its deposit, A continues.
func (s *scenario) play(ctx context.Context) error {
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
		return s.deposit(ctx, b, ofB, nil)
	}
	err = s.deposit(ctx, a, ofA, meanwhile)
	turnedAway := errors.Is(err, errTurnedAway)
	if turnedAway {
		s.Say("  A  starts again")
		err = s.deposit(ctx, a, ofA, nil)
	}
	if err != nil {
		return err
	}
	return s.verify(ctx, turnedAway)
}

// deposit adds to the balance under the lock. pause runs between the reading and the writing. The
// worker does not check its lock after the pause: a pause can also follow the last check before the
// writing.
func (s *scenario) deposit(ctx context.Context, w *worker, amount int, pause func() error) (err error) {
	lock, err := w.locker.Acquire(ctx, account, lease)
	if err != nil {
		return err
	}
	defer func() {
		end := lock.Release(ctx)
		switch {
		case err != nil:
			err = errors.Join(err, end)
		case errors.Is(end, redlock.ErrLost):
			s.Say("  %s  learns from Release that its lock was lost", w.name)
		}
	}()
	balance, err := s.bank.read(ctx, lock.Fence(), lock.ID())
	if err != nil {
		return err
	}
	s.Say("  %s  holds the lock with fence %d, reads %d", w.name, lock.Fence(), balance)
	if pause != nil {
		if err := pause(); err != nil {
			return err
		}
		s.Say("  %s  continues; its lease ended %v ago", w.name, (-lock.Remaining()).Round(time.Millisecond))
	}
	if err := s.bank.write(ctx, balance+amount, lock.Fence(), lock.ID()); err != nil {
		s.Say("  %s  wants to write %d: %v", w.name, balance+amount, err)
		return err
	}
	s.Say("  %s  writes %d", w.name, balance+amount)
	return nil
}

// verify compares the balance with what it should be.
func (s *scenario) verify(ctx context.Context, turnedAway bool) error {
	balance, err := s.bank.balance(ctx)
	if err != nil {
		return err
	}
	want, given := before+ofA, fmt.Sprintf("B's %d are lost", ofB)
	if s.bank.checks() {
		want, given = before+ofA+ofB, "nothing is lost"
	}
	if balance != want || turnedAway != s.bank.checks() {
		return fmt.Errorf("a balance of %d instead of %d; the paused worker was turned away: %t", balance, want, turnedAway)
	}
	s.Say("  In the end the account holds %d: %s.\n", balance, given)
	return nil
}

// close waits up to one lease for the undo of the last attempt.
func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	_ = w.locker.Close(ctx)
}
