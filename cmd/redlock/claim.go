package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/redlock"
)

func extendEntry() *subcommand {
	return &subcommand{
		Command: &cobra.Command{
			Use:   "extend [flags] CLAIM|-",
			Short: "extend a lock that redlock acquire acquired",
			Long: claimAbout + `
The lock expires after --ttl from now on, or later if it would have anyway. An extension
never creates a lock that has ended.

With --json it prints one object:
  names    the lock's names
  id       its ID, the same as in redlock acquire and run
  fence    its fence; absent without fencing
  left_ms  how long the lock is safe from now on
`,
			Example:   `  echo "$CLAIM" | redlock extend --ttl 5m - || exit  # it is lost: stop`,
			ValidArgs: []string{"-"},
		},
		flags: extendFlags,
		exitStatuses: []exitStatus{
			{exitOK, "the lock is held, for --ttl at least"},
			endsMisused,
			{exitUnavailable, "no quorum of nodes could be reached: the lock expires as before, unless this is repeated"},
			endsUnwritten, endsClaimLost, endsQuarantine, endsUnguarded,
		},
	}
}

func releaseEntry() *subcommand {
	return &subcommand{
		Command: &cobra.Command{
			Use:        "release [flags] CLAIM|-",
			Short:      "release a lock that redlock acquire acquired",
			SuggestFor: []string{"unlock"},
			Long: claimAbout + `
With --json it prints one object:
  names     the lock's names
  id        its ID, the same as in redlock acquire and run
  released  true
`,
			Example:   `  echo "$CLAIM" | redlock release -`,
			ValidArgs: []string{"-"},
		},
		flags: releaseFlags,
		exitStatuses: []exitStatus{
			{exitOK, "the lock was held until now, and is released"},
			endsMisused,
			{exitUnavailable, "no quorum of nodes could be reached: the lock expires by its TTL"},
			endsUnwritten,
			{exitLost, "the lock was lost before: another client may have held it meanwhile"},
			endsQuarantine, endsUnguarded,
		},
	}
}

const claimAbout = `CLAIM is the claim that redlock acquire printed, or the text form of a claim that
Lock.Detach returned in a program. With - it is read from standard input, so that other
users of the machine cannot see it among the processes: the claim can release the lock.
The claim names the lock, and not the keys on the nodes: --nodes, --prefix and --guard must
be those of the acquisition. Otherwise the lock counts as lost.
`

func extendFlags(f *pflag.FlagSet) runFunc {
	nodesFlags(f)
	guardFlag(f)
	ttl := duration(f, "ttl", 0, "the TTL of the lock from now on (default: the TTL that it was acquired with)")
	return func(ctx context.Context, c *invocation) int {
		return withClaim(ctx, c, *ttl, func(locker *redlock.Locker, lock *redlock.Lock, ttl time.Duration) error {
			if err := lock.Extend(ctx, ttl); err != nil {
				return err
			}
			untilAllAnswered(ctx, locker, lock)
			h := newClaimJSON(lock)
			if _, err := lock.Detach(); err != nil {
				return err
			}
			if c.asJSON {
				_ = c.object(h) // reportOutput reports its error
			}
			return nil
		})
	}
}

func releaseFlags(f *pflag.FlagSet) runFunc {
	nodesFlags(f)
	guardFlag(f)
	return func(ctx context.Context, c *invocation) int {
		return withClaim(ctx, c, 0, func(_ *redlock.Locker, lock *redlock.Lock, _ time.Duration) error {
			err := lock.Release(ctx)
			if err == nil && c.asJSON {
				_ = c.object(struct {
					Names    []string `json:"names"`
					ID       string   `json:"id"`
					Released bool     `json:"released"`
				}{lock.Names(), lock.ID(), true})
			}
			return err
		})
	}
}

// withClaim has something done with the lock of a claim.
func withClaim(ctx context.Context, c *invocation, ttl time.Duration,
	do func(*redlock.Locker, *redlock.Lock, time.Duration) error,
) int {
	claim, err := readClaim(c)
	if err != nil {
		return c.misused("%v", err)
	}
	switch {
	case ttl == 0:
		ttl = claim.TTL
	case ttl < redlock.MinTTL: // the library reports it only after it has queried the nodes
		return c.misused("--ttl must be at least %v", redlock.MinTTL)
	}
	maxTTL, err := c.guard()
	if err != nil {
		return c.misused("%v", err)
	}
	locker, err := openFor(c, claim, maxTTL, ttl)
	if err != nil {
		return c.misused("%v", err)
	}
	defer closeSoon(locker)
	var lock *redlock.Lock
	resume := func(ctx context.Context) (err error) {
		lock, err = locker.Resume(ctx, claim)
		return err
	}
	err = restartGuard{locker, maxTTL}.begunFor(ctx, resume)
	if err == nil {
		err = resume(ctx)
	}
	if err == nil {
		err = do(locker, lock, ttl)
	}
	return ended(c, claim, err)
}

// openFor makes a Locker for a claim.
func openFor(c *invocation, claim redlock.Claim, maxTTL, ttl time.Duration) (*redlock.Locker, error) {
	nodes, err := c.nodes()
	if err != nil {
		return nil, err
	}
	var opts []redlock.Option
	if maxTTL == 0 && claim.TTL > redlock.DefaultMaxTTL { // a claim of a program with a longer maxTTL
		opts = append(opts, redlock.WithMaxTTL(claim.TTL))
	}
	return c.open(nodes, maxTTL, nodeTimeout(min(ttl, claim.TTL)), opts...)
}

// maxClaim bounds what is read: several names of 512 bytes, and to spare.
const maxClaim = 1 << 20

// readClaim reads the claim that was given.
func readClaim(inv *invocation) (claim redlock.Claim, err error) {
	args := inv.all()
	if len(args) != 1 {
		return claim, fmt.Errorf("one CLAIM is needed, or - to read it, %d given", len(args))
	}
	text := args[0]
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(inv.stdin, maxClaim))
		if err != nil {
			return claim, fmt.Errorf("no claim could be read: %w", err)
		}
		text = strings.TrimSpace(string(read))
	}
	if text == "" {
		return claim, errors.New("the CLAIM is empty: did redlock acquire fail?")
	}
	return claim, claim.UnmarshalText([]byte(text))
}

// ended is the status of what was done with a claim.
func ended(inv *invocation, claim redlock.Claim, err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, redlock.ErrLost), errors.Is(err, redlock.ErrTooLate):
		inv.fail(err, "%v: %v", claim, err)
		return exitLost
	case errors.Is(err, redlock.ErrInvalid):
		return inv.misused("%v", err)
	case refusal(err) == exitHeld:
		inv.fail(err, "%v: %s", claim, inShort(err))
	default:
		inv.fail(err, "%v: %v", claim, err)
	}
	return refusal(err)
}

func newClaimJSON(lock *redlock.Lock) claimJSON {
	return claimJSON{Names: lock.Names(), ID: lock.ID(), Fence: lock.Fence(), LeftMS: lock.Remaining().Milliseconds()}
}
