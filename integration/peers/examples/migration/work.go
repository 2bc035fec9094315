package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// turn is one piece of work under the lock.
func (v *service) turn(ctx context.Context, c client) error {
	h, err := c.acquire(ctx, invoice)
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	err = v.ledger.enter(c.String(), h.until)
	time.Sleep(2 * time.Millisecond) // the work
	v.ledger.leave(c.String())
	if lost := h.release(ctx); !errors.Is(lost, redlock.ErrLost) { // the work took longer than the lock, and another client may have entered: enter tolerates that
		err = errors.Join(err, lost)
	}
	return err
}

// contend has the clients work side by side until each has had its turns.
func (v *service) contend(ctx context.Context, clients ...client) error {
	failures := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for turn := 0; turn < turns && failures[i] == nil; turn++ {
				failures[i] = v.turn(ctx, c)
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}

// contendUntil has the clients work side by side until done returns.
func (v *service) contendUntil(ctx context.Context, clients []client, done func(context.Context) error) error {
	over := make(chan struct{})
	failures := make([]error, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for failures[i] == nil {
				select {
				case <-over:
					return
				default:
					failures[i] = v.turn(ctx, c)
				}
			}
		})
	}
	err := done(ctx)
	close(over)
	all.Wait()
	return errors.Join(append(failures, err)...)
}

// excludes has one client hold the name, and returns an error if another one is not refused.
func excludes(ctx context.Context, holder, other client) error {
	h, err := holder.acquire(ctx, invoice)
	if err != nil {
		return err
	}
	err = other.try(ctx, invoice, h.until)
	if other.refused(err) {
		err = nil
	} else {
		err = errors.Join(fmt.Errorf("%s holds the name, and %s is not refused", holder, other), err)
	}
	return errors.Join(err, h.release(ctx))
}
