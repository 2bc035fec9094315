//go:build unix && !aix && !solaris

package run

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
)

// runFlags defines the flags of `run` and returns the function that executes it.
func runFlags(f *pflag.FlagSet) cli.RunFunc {
	p := newRunOptions(f)
	return func(ctx context.Context, c *cli.Invocation) int {
		if exit, ok := p.read(c); !ok {
			return exit
		}
		return p.run(ctx, c)
	}
}

// run acquires the lock and holds it while the command runs.
//
// The signals are caught before the lock is requested, so a signal during the wait ends the wait
// instead of the process. The lock is released only after hold has returned.
func (o *runOptions) run(ctx context.Context, c *cli.Invocation) int {
	locker, err := o.Open(c)
	if err != nil {
		return c.Misused("%v", err)
	}
	in := cli.Listen()
	lock, err := o.Acquire(ctx, c, locker, in, o.options()...)
	if err != nil {
		cli.CloseSoon(locker)
		return o.Refusal(err)
	}
	exit, gone := o.hold(c, lock, in)
	closing, cancel := context.WithTimeout(context.Background(), cli.CloseTimeout)
	defer cancel()
	defer func() { cli.CloseIn(closing, locker) }() // closing uses what is left of cli.CloseTimeout after the release
	if !gone {
		return exit
	}
	// The release is also sent after a loss: the loss may be reported before the validity ends, so
	// the key may still be this lock's.
	switch err := cli.Release(closing, lock); {
	case errors.Is(err, redlock.ErrLost) && exit != cli.ExitLost:
		c.Fail(err, "%s was lost while the command ran: %s", o.Name, why(err))
		return cli.ExitLost
	case err != nil && exit != cli.ExitLost:
		c.Say("%v", err) // the key expires; the command ran while the lock was held
	}
	return exit
}
