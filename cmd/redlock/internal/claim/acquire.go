package claim

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/request"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/redlock"
)

// Acquire returns `acquire`.
func Acquire() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:        "acquire [flags] NAME",
			Short:      "acquire a lock for a shell script, and print a claim to it",
			Long:       acquireAbout,
			SuggestFor: []string{"lock"},
			Example: "  CLAIM=$(redlock acquire --ttl 5m --wait 0 job) || exit\n" +
				`  echo "$CLAIM" | redlock release -`,
		},
		Define: acquireFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "NAME is held, and the claim was printed"),
			cli.EndsMisused,
			cli.EndsForeign,
			cli.EndsNoQuorum,
			cli.Ends(cli.ExitSystem, "the claim could not be written; the lock is released, or expires when --ttl has passed"),
			cli.Ends(cli.ExitLost, "the lock was acquired, but expired before the claim could be printed"),
			cli.EndsHeld,
			cli.EndsUnguarded,
			cli.Ends(cli.ExitSignal, "signal n ended the wait; nothing is held, or it expires when --ttl has passed"),
		},
	}
}

const acquireAbout = `It prints a claim: one word that redlock extend and redlock release accept, also in
another process or on another machine. The lock is not extended automatically. It expires
when --ttl has passed, so a script that crashes leaves no lock. A script that takes longer
has to extend the lock in time. To guard a single command use redlock run: it ends the
command when the lock is lost.

The claim contains the lock's token, which can release the lock. Keep it like a password.
For logs and databases use the ID of --json. Pass the claim to extend and release through
a pipe, as in the example: other users of the machine can read command lines. (In a
shell, echo and printf are builtins and have no command line.)

If another client holds NAME, a line on the terminal shows the holder and the time left.

The nodes give each holder a number, the fence. They count it in redlock:fence:NAME, a key
with a TTL of 7 days. The fence is larger than those of all locks on NAME that were
acquired before this one was asked for. --json prints it. A database is safe from a script
that continues too late if each transaction checks the fence before it reads. It accepts
one that is larger than the stored one, or equal with the same ID, and stores both.
(docs/safety.md says when fences increase.) --no-fence turns this off.

With --guard a node that may have forgotten locks does not vote until they have
expired: see redlock run -h. extend and release then need the same --guard.

With --json it prints one object:
  names    the lock's names; here one
  id       the ID of this acquisition, for logs and databases
  claim    the claim, which contains the token
  fence    the fence; absent with --no-fence
  left_ms  how long the lock is safe from now on
`

func acquireFlags(f *pflag.FlagSet) cli.RunFunc {
	// The pid is that of the script: this process has ended while the lock is held.
	w := request.New(f, command.ProcessLabel(os.Getppid()), "pid of the caller")
	return func(ctx context.Context, c *cli.Invocation) (exit int) {
		var err error
		if w.Name, err = c.Name(); err != nil {
			return c.Misused("%v", err)
		}
		if err := w.Read(c); err != nil {
			return c.Misused("%v", err)
		}
		locker, err := w.Open(c)
		if err != nil {
			return c.Misused("%v", err)
		}
		defer func() { cli.CloseAfterAcquire(locker, exit) }()
		in := cli.Listen()
		lock, err := w.Acquire(ctx, c, locker, in)
		if err != nil {
			return cli.Refusal(err)
		}
		return handOut(ctx, c, locker, lock, in)
	}
}

// handOut prints the claim on a lock. If it returns another status than 0 it has released the lock,
// or could not.
func handOut(ctx context.Context, c *cli.Invocation, locker *redlock.Locker, lock *redlock.Lock, in cli.Signals) int {
	untilAllAnswered(ctx, locker, lock)
	if sig, ok := in.Pending(); ok {
		if err := lock.Release(ctx); err != nil {
			c.Fail(cli.SignalError{Signal: sig}, "signal %v ended the wait"+unreleased, sig, err)
		}
		return cli.ExitSignal + int(sig)
	}
	h := newClaimJSON(lock)
	claim, err := lock.Detach()
	if err != nil {
		c.Fail(err, "%v", err)
		return cli.ExitLost
	}
	if err := printClaim(c, h, claim); err != nil {
		if failed := releaseClaim(ctx, locker, claim); failed != nil {
			c.Fail(err, "the claim could not be written"+unreleased, failed)
		} else {
			c.Fail(err, "the claim could not be written, so the lock is released")
		}
		return cli.ExitSystem
	}
	return cli.ExitOK
}

// unreleased follows what kept the claim from being printed.
const unreleased = ", and the release failed, so the lock expires when --ttl has passed: %v"

func releaseClaim(ctx context.Context, locker *redlock.Locker, claim redlock.Claim) error {
	lock, err := locker.Resume(ctx, claim)
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

// untilAllAnswered waits for the nodes that have not answered yet, at most for cli.AnswerTimeout. A
// command that is unsent when the handle ends is never sent, and a lock on a bare quorum does not
// survive the failure of one more node. A query on the same connection is answered after the
// commands that were sent before it.
func untilAllAnswered(ctx context.Context, locker *redlock.Locker, lock *redlock.Lock) {
	ctx, cancel := context.WithTimeout(ctx, min(cli.AnswerTimeout, lock.Remaining()/4))
	defer cancel()
	_, _ = locker.Inspect(ctx, lock.Names()[0]) // its answer does not matter
}

// claimJSON is the JSON form of a lock that is held by a claim.
type claimJSON struct {
	Names  []string `json:"names"`
	ID     string   `json:"id"`
	Claim  string   `json:"claim,omitempty"`
	Fence  int64    `json:"fence,omitempty"`
	LeftMS int64    `json:"left_ms"`
}

func printClaim(inv *cli.Invocation, h claimJSON, claim redlock.Claim) error {
	text, err := claim.MarshalText()
	if err != nil {
		return err
	}
	if !inv.JSON {
		_, err = fmt.Fprintf(inv.Stdout, "%s\n", text)
		return err
	}
	h.Claim = string(text)
	return inv.PrintJSON(h)
}
