package main

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/quorumlock/go-redlock/redlock"
)

// teller moves money, with a Locker of its own, as another process would have.
type teller struct {
	locker *redlock.Locker
	bank   *bank
}

func newTeller(name string, urls []string, b *bank) (*teller, error) {
	l, err := redlock.Open(urls, redlock.WithFencing(), redlock.WithOwner(name), redlock.WithKeyPrefix(prefix))
	if err != nil {
		return nil, err
	}
	return &teller{l, b}, nil
}

func (t *teller) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	_ = t.locker.Close(ctx) // what could not be undone expires
}

var errTooLittle = errors.New("there is not so much on it")

// transfer moves an amount under a lock on both accounts. pause is what happens between the reading and the writing.
func (t *teller) transfer(ctx context.Context, from, to string, amount int, pause func() error) error {
	lock, err := t.locker.AcquireAll(ctx, []string{from, to}, lease)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Release(ctx) }() // ErrLost, where the lease is over
	a, err := t.bank.balance(ctx, from)
	if err != nil {
		return err
	}
	b, err := t.bank.balance(ctx, to)
	if err != nil {
		return err
	}
	if a < amount {
		return errTooLittle
	}
	if pause != nil {
		if err := pause(); err != nil {
			return err
		}
	}
	return t.bank.book(ctx, lock.Fence(), lock.ID(), entry{from, a - amount}, entry{to, b + amount})
}

// work makes a teller's transfers. One that was too slow for its lease begins again; one that can't be made picks another.
func (t *teller) work(ctx context.Context) error {
	for made := 0; made < transfers; {
		two := rand.Perm(len(accounts))
		err := t.transfer(ctx, accounts[two[0]], accounts[two[1]], 1+rand.IntN(opening), nil)
		switch {
		case err == nil:
			made++
		case errors.Is(err, errTurnedAway), errors.Is(err, errTooLittle):
		default:
			return err
		}
	}
	return nil
}
