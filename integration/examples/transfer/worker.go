package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/quorumlock/go-redlock/redlock"
)

// worker moves money. It has its own Locker, as in its own process.
type worker struct {
	locker *redlock.Locker
	bank   *bank
}

func newWorker(name string, urls []string, b *bank) (*worker, error) {
	l, err := redlock.Open(urls, redlock.WithFencing(), redlock.WithOwner(name), redlock.WithKeyPrefix(prefix))
	if err != nil {
		return nil, err
	}
	return &worker{l, b}, nil
}

func (w *worker) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lease)
	defer cancel()
	_ = w.locker.Close(ctx) // keys that could not be deleted expire
}

var errTooLittle = errors.New("insufficient balance")

// transfer moves an amount under a lock on both accounts. pause runs between the reading and the writing.
func (w *worker) transfer(ctx context.Context, from, to string, amount int, pause func() error) (err error) {
	lock, err := w.locker.AcquireAll(ctx, []string{from, to}, lease)
	if err != nil {
		return err
	}
	defer func() {
		end := lock.Release(ctx)
		if err != nil && end != nil { // otherwise the bank has accepted the fence, and the transfer is made
			err = fmt.Errorf("%w; %w", err, end)
		}
	}()
	had, err := w.bank.readAll(ctx, lock.Fence(), lock.ID(), from, to)
	if err != nil {
		return err
	}
	a, b := had[0], had[1]
	if a < amount {
		return errTooLittle
	}
	if pause != nil {
		if err := pause(); err != nil {
			return err
		}
	}
	return w.bank.writeAll(ctx, lock.Fence(), lock.ID(), entry{from, a - amount}, entry{to, b + amount})
}

// work makes all transfers of a worker. It replaces a transfer that was too slow for its lease, or
// that the balance does not cover.
func (w *worker) work(ctx context.Context) error {
	for made := 0; made < transfers; {
		two := rand.Perm(len(accounts))
		err := w.transfer(ctx, accounts[two[0]], accounts[two[1]], 1+rand.IntN(opening), nil)
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
