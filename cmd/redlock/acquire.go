package main

import (
	"context"
	"fmt"
	"os"

	"github.com/quorumlock/go-redlock/redlock"
)

func acquireEntry() command {
	return command{
		name:    "acquire",
		words:   "NAME",
		summary: "take a lock for a shell script: a claim on it is printed",
		flags:   acquireFlags,
		about:   acquireAbout,
		exitStatuses: []exitStatus{
			{exitOK, "NAME is held, and the claim was printed"},
			endsMisused,
			endsNoQuorum,
			{exitSystem, "the claim could not be written; the lock was given back"},
			{exitLost, "the lock was had, but not for long enough to hand it out"},
			endsHeld,
			endsUnguarded,
			{exitSignal, "signal n ended the wait, and nothing is held"},
		},
		examples: []string{
			"CLAIM=$(redlock acquire --ttl 5m --wait 0 job) || exit",
			`echo "$CLAIM" | redlock release -`,
		},
	}
}

const acquireAbout = `It prints a claim, a word by which redlock extend and redlock release know the lock
again, also from another process or another machine. Nothing extends the lock by itself:
it ends when --ttl has passed, so that a script that dies leaves nothing behind, and
a script that takes longer has to extend it in time. Where one command is all that is
to be guarded, redlock run is safer: it ends the command when the lock is lost.

Who has the claim can release the lock, because it contains the lock's token: keep it as
you would a password; logs and databases take the ID of --json. Give the claim to
extend and release by a pipe, as in the example: what stands on a command line can be
read by others on the machine (in a shell, echo and printf are no commands of
their own).

While NAME is held elsewhere, a line on the terminal says by whom and for how long.

Holders are numbered by the masters, in redlock:fence:NAME, which lives for 7 days:
the number is larger than that of all who held NAME before. --json tells it, and a
database that remembers the largest it has seen, and turns smaller ones away, is
safe from a script that goes on too late. With --no-fence nothing is counted.

With --guard a master that may have forgotten locks does not vote until they have
expired: see redlock run -h. extend and release need the same --guard then.

With --json it prints one object:
  names    the lock's names; here one
  id       the ID of this acquisition, for logs and databases
  claim    the claim, which contains the token
  fence    the number; only without --no-fence
  left_ms  for how long the lock is safe from now on
`

func acquireFlags(f *flagSet) runFunc {
	// The pid is that of the script: this process is gone while the lock lives.
	w := lockRequestFlags(f, ownerOf(os.Getppid()), "pid of the caller")
	asJSON := jsonFlag(f)
	return func(ctx context.Context, c *invocation) (exit int) {
		var err error
		if w.name, err = c.name(); err != nil {
			return c.misused("%v", err)
		}
		if err := w.boundToCaller(c); err != nil {
			return c.misused("%v", err)
		}
		locker, err := w.open(c)
		if err != nil {
			return c.misused("%v", err)
		}
		defer closeSoon(locker)
		in := listen()
		lock, err := w.acquire(ctx, c, locker, in)
		if err != nil {
			return refusal(err)
		}
		return handOut(ctx, c, locker, lock, in, *asJSON)
	}
}

// handOut prints the claim on a lock. When it returns another status than 0 the lock is
// given back.
func handOut(ctx context.Context, c *invocation, locker *redlock.Locker, lock *redlock.Lock, in signalQueue, asJSON bool) int {
	untilAllAnswered(ctx, locker, lock)
	if sig, ok := in.pending(); ok {
		_ = lock.Release(ctx)
		return exitSignal + int(sig)
	}
	h := newClaimJSON(lock)
	claim, err := lock.Detach()
	if err != nil {
		c.say("%v", err)
		return exitLost
	}
	if err := c.printClaim(h, claim, asJSON); err != nil {
		c.say("the claim could not be written, so that the lock is given back: %v", err)
		if lock, err := locker.Resume(ctx, claim); err == nil {
			_ = lock.Release(ctx)
		}
		return exitSystem
	}
	return exitOK
}

// untilAllAnswered waits for the masters that have not answered yet, as long as a person does not
// notice: what is not sent when the handle ends is never sent, and a lock that stands on a bare
// quorum does not survive one more failure. A question on the same connection is
// answered behind what was sent before it.
func untilAllAnswered(ctx context.Context, locker *redlock.Locker, lock *redlock.Lock) {
	ctx, cancel := context.WithTimeout(ctx, min(closeTimeout, lock.Remaining()/4))
	defer cancel()
	_, _ = locker.Inspect(ctx, lock.Names()[0]) // what it says does not matter
}

// claimJSON is what programs are told of a lock that is held by a claim.
type claimJSON struct {
	Names  []string `json:"names"`
	ID     string   `json:"id"`
	Claim  string   `json:"claim,omitempty"`
	Fence  int64    `json:"fence,omitempty"`
	LeftMS int64    `json:"left_ms"`
}

func (inv *invocation) printClaim(h claimJSON, claim redlock.Claim, asJSON bool) error {
	text, err := claim.MarshalText()
	if err != nil {
		return err
	}
	if !asJSON {
		_, err = fmt.Fprintf(inv.stdout, "%s\n", text)
		return err
	}
	h.Claim = string(text)
	return inv.object(h)
}
