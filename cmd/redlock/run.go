//go:build unix && !aix && !solaris

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/redlock"
)

// runFlags are those of `run`, and what it does.
func runFlags(f *flagSet) runFunc {
	p := newRunOptions(f)
	return func(ctx context.Context, c *invocation) int {
		if exit, ok := p.read(c); !ok {
			return exit
		}
		return p.run(ctx, c)
	}
}

// run takes the lock, and holds it while the command runs.
func (o *runOptions) run(ctx context.Context, c *invocation) int {
	locker, err := o.open(c)
	if err != nil {
		return c.misused("%v", err)
	}
	in := listen()
	lock, err := o.acquire(ctx, c, locker, in, o.options()...)
	if err != nil {
		closeSoon(locker)
		return refusal(err)
	}
	exit := o.hold(c, lock, in)
	bye, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	defer func() { closeIn(bye, locker) }() // in what giving back has left of the time
	// Also after a loss: within the stop margin it is still ours to give back.
	switch err := giveBack(bye, lock); {
	case errors.Is(err, redlock.ErrLost) && exit != exitLost:
		c.say("%s was lost while the command ran: %v", o.name, err)
		return exitLost
	case err != nil && exit != exitLost:
		c.say("%v", err) // it expires; the command ran while it was held
	}
	return exit
}

// errNotAllAnswered is a release that was sent, and not answered in the time that a person
// does not notice.
var errNotAllAnswered = errors.New("some nodes did not confirm the release in time; remaining keys expire")

// giveBack releases the lock, and waits for the nodes until ctx is done: Release by
// itself waits for the node timeout, and for no context.
func giveBack(ctx context.Context, lock *redlock.Lock) error {
	done := make(chan error, 1)
	go func() { done <- lock.Release(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", lock.Names()[0], errNotAllAnswered)
	}
}
