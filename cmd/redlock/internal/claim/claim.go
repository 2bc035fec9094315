package claim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/redlock"
)

// Extend returns `extend`.
func Extend() *cli.Subcommand {
	return &cli.Subcommand{
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
		Define: extendFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "the lock is held, for --ttl at least"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum of nodes could be reached: the lock expires as before, unless this is repeated"),
			cli.EndsUnwritten, cli.EndsClaimLost, cli.EndsQuarantine, cli.EndsUnguarded,
		},
	}
}

// Release returns `release`.
func Release() *cli.Subcommand {
	return &cli.Subcommand{
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
		Define: releaseFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "the lock was held until now, and is released"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum of nodes could be reached: the lock expires by its TTL"),
			cli.EndsUnwritten,
			cli.Ends(cli.ExitLost, "the lock was lost before: another client may have held it meanwhile"),
			cli.EndsQuarantine, cli.EndsUnguarded,
		},
	}
}

const claimAbout = `CLAIM is the claim that redlock acquire printed, or the text form of a claim that
Lock.Detach returned in a program. With - it is read from standard input, so that other
users of the machine cannot see it among the processes: the claim can release the lock.
The claim names the lock, and not the keys on the nodes: --nodes, --prefix and --guard must
be those of the acquisition. Otherwise the lock counts as lost.
`

func extendFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	cli.GuardFlag(f)
	ttl := cli.DurationFlag(f, "ttl", 0, "the TTL of the lock from now on (default: the TTL that it was acquired with)")
	return func(ctx context.Context, c *cli.Invocation) int {
		return withClaim(ctx, c, *ttl, func(locker *redlock.Locker, lock *redlock.Lock, ttl time.Duration) error {
			if err := lock.Extend(ctx, ttl); err != nil {
				return err
			}
			untilAllAnswered(ctx, locker, lock)
			h := newClaimJSON(lock)
			if _, err := lock.Detach(); err != nil {
				return err
			}
			if c.JSON {
				_ = c.PrintJSON(h) // ReportOutput reports its error
			}
			return nil
		})
	}
}

func releaseFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	cli.GuardFlag(f)
	return func(ctx context.Context, c *cli.Invocation) int {
		return withClaim(ctx, c, 0, func(_ *redlock.Locker, lock *redlock.Lock, _ time.Duration) error {
			err := lock.Release(ctx)
			if err == nil && c.JSON {
				_ = c.PrintJSON(struct {
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
func withClaim(ctx context.Context, c *cli.Invocation, ttl time.Duration,
	do func(*redlock.Locker, *redlock.Lock, time.Duration) error,
) int {
	claim, err := readClaim(c)
	if err != nil {
		return c.Misused("%v", err)
	}
	switch {
	case !c.Command.Flags().Changed("ttl"):
		ttl = claim.TTL
	case ttl < redlock.MinTTL: // the library reports it only after it has queried the nodes
		return c.Misused("--ttl must be at least %v", redlock.MinTTL)
	}
	maxTTL, err := c.MaxTTL()
	if err != nil {
		return c.Misused("%v", err)
	}
	locker, err := openFor(c, claim, maxTTL, ttl)
	if err != nil {
		return c.Misused("%v", err)
	}
	defer cli.CloseSoon(locker)
	lock, err := cli.RestartGuard{Locker: locker, MaxTTL: maxTTL}.Resume(ctx, claim)
	if err == nil {
		err = do(locker, lock, ttl)
	}
	return ended(c, claim, err)
}

// openFor makes a Locker for a claim.
func openFor(c *cli.Invocation, claim redlock.Claim, maxTTL, ttl time.Duration) (*redlock.Locker, error) {
	nodes, err := c.Nodes()
	if err != nil {
		return nil, err
	}
	var opts []redlock.Option
	if maxTTL == 0 && claim.TTL > redlock.DefaultMaxTTL { // a claim of a program with a longer maxTTL
		opts = append(opts, redlock.WithMaxTTL(claim.TTL))
	}
	return c.Open(nodes, maxTTL, cli.NodeTimeout(min(ttl, claim.TTL)), opts...)
}

// maxClaim bounds what is read: several names of 512 bytes, and to spare.
const maxClaim = 1 << 20

// readClaim reads the claim that was given.
func readClaim(inv *cli.Invocation) (claim redlock.Claim, err error) {
	args := inv.Words()
	if len(args) != 1 {
		return claim, fmt.Errorf("one CLAIM is needed, or - to read it, %d given", len(args))
	}
	text := args[0]
	if text == "-" {
		read, err := io.ReadAll(io.LimitReader(inv.Stdin, maxClaim))
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
func ended(inv *cli.Invocation, claim redlock.Claim, err error) int {
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.Is(err, redlock.ErrLost), errors.Is(err, redlock.ErrTooLate):
		inv.Fail(err, "%v: %v", claim, err)
		return cli.ExitLost
	case errors.Is(err, redlock.ErrInvalid):
		return inv.Misused("%v", err)
	case cli.Refusal(err) == cli.ExitHeld, cli.IsGuardMismatch(err):
		inv.Fail(err, "%v: %s", claim, cli.Brief(err))
	default:
		inv.Fail(err, "%v: %v", claim, err)
	}
	return cli.Refusal(err)
}

func newClaimJSON(lock *redlock.Lock) claimJSON {
	return claimJSON{Names: lock.Names(), ID: lock.ID(), Fence: lock.Fence(), LeftMS: lock.Remaining().Milliseconds()}
}
