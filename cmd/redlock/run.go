//go:build unix && !aix && !solaris

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/redlock"
)

const runSynopsis = "[--ttl 30s] [--wait 1m] [--grace D] [--owner LABEL] [--no-fence] [--guard maxTTL] NAME -- COMMAND [ARG…]"

const runText = `COMMAND runs only while NAME is held: the lock is extended as long as it runs, and
given back when it has ended. COMMAND's environment has REDLOCK_NAME,
REDLOCK_TOKEN (who knows the token can release the lock) and REDLOCK_FENCE, a number
that is larger than that of all who held NAME before: a database that remembers the
largest it has seen, and turns smaller ones away, is safe from a COMMAND that goes on
too late. The masters count it in redlock:fence:NAME, which lives for 7 days.

While NAME is held elsewhere, a line on the terminal says by whom and for how long.

COMMAND has a process group of its own, which gets the signals that redlock gets:
HUP, INT, QUIT, TERM, USR1, USR2, WINCH, TSTP, CONT. On a terminal it is the one in
the foreground; Ctrl-Z stops redlock with it, and then nothing extends the lock.

When the lock is lost, or can't be extended, the group gets SIGTERM, --grace before
the lock's validity ends at the latest; and SIGKILL before it ends. When redlock is
killed, or stopped for too long, another process kills the group. What COMMAND
leaves running in its group when it ends gets SIGTERM, and SIGKILL after --grace: a
program that makes a session of its own, as daemons do, runs without the lock.

With --guard a master that was started, emptied or promoted does not vote before
every lock that it may have forgotten has expired, which --ttl may be as long as at
the most. New masters wait, too, once: see redlock doctor --admit.

Exit status:
  COMMAND's own, or 128 + n when signal n ended it (or ended the wait for NAME)
  64   wrong usage
  69   no quorum of masters could be reached
  71   this machine could not start what is needed
  74   the lock was lost under way, whatever COMMAND's own status was
  75   NAME is held elsewhere, or too many masters are quarantined (--guard)
  126  COMMAND can't be executed
  127  COMMAND was not found

Example:
  redlock run --ttl 30s --wait 0 nightly-report -- ./report.sh --mail
`

// runCommand is the subcommand.
func runCommand(ctx context.Context, c *call) int {
	p, exit, ok := planRun(c)
	if !ok {
		return exit
	}
	p.line = newWaitLine(c.stderr, p.name)
	locker, err := redlock.Open(p.urls, append(p.options(), p.line.options()...)...)
	if err != nil {
		return c.misused("%v", err)
	}
	in := listen()
	lock, err := p.acquire(ctx, c, locker, in)
	if err != nil {
		closeSoon(locker)
		return refusal(err)
	}
	exit = p.hold(c, lock, in)
	bye, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	defer func() { _ = locker.Close(bye) }() // in what giving back has left of the time
	// Also after a loss: within the stop margin it is still ours to give back.
	switch err := giveBack(bye, lock); {
	case errors.Is(err, redlock.ErrLost) && exit != exitLost:
		c.say("%s was lost while the command ran: %v", p.name, err)
		return exitLost
	case err != nil && exit != exitLost:
		c.say("%v", err) // it expires; the command ran while it was held
	}
	return exit
}

// errUnheard is a release that was sent, and not answered in the time that a person
// does not notice.
var errUnheard = errors.New("the masters did not say in time whether they released it; what is left expires by itself")

// giveBack releases the lock, and waits for the masters until ctx is done: Release by
// itself waits for the node timeout, and for no context.
func giveBack(ctx context.Context, lock *redlock.Lock) error {
	done := make(chan error, 1)
	go func() { done <- lock.Release(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", lock.Names()[0], errUnheard)
	}
}
