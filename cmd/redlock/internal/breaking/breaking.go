package breaking

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/query"
	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock"
)

// Subcommand returns `break`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "break [flags] NAME",
			Short: "take a lock from its holder, after a question",
			Long:  breakAbout,
			Example: "  redlock break invoice/42\n" +
				"  redlock break --yes --json invoice/42 | jq .may_believe_ms",
		},
		HeldName: true,
		Define:   breakFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "the lock is broken: NAME is free on a quorum of the nodes"),
			cli.Ends(cli.ExitFailed, "nothing was deleted: NAME is free, its key is no lock of this library, or the answer was not yes"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum of nodes could be reached; the message says whether anything was deleted"),
			cli.EndsUnwritten,
			cli.Ends(cli.ExitLost, "the lock was released, expired or got another holder since it was shown; the new holder keeps it"),
			cli.EndsQuarantine, cli.EndsUnguarded,
		},
	}
}

const breakAbout = `It shows who holds NAME, asks on the terminal whether to break the lock, and deletes its
keys. Use it if the holder hangs, or has ended, and --ttl is too long to wait for.

It cannot stop the holder. The holder may believe that it holds NAME until the lock would
have expired; the output says how long. A holder that extends its lock automatically
notices at its next extension, after about a third of its TTL. Until then two clients may
work under NAME at once, unless the resource checks fences. End the holder first.

Only the lock that was shown is deleted: a key with another token stays. At least a quorum
of the nodes must have it and answer. Waiters are told at once. The fence counter stays,
so the next holder has a larger fence. Of a lock on several names only NAME becomes free,
but its holder loses all of them.

A key that is no lock of this library (other libraries, or no expiry) is refused. --nodes,
--prefix and --guard must be those of the holder.

With --json it prints one object:
  name            the lock
  broken          true
  owner           the label of the holder, "" if it has none
  id              the ID of the holder's lock, as its logs show it
  may_believe_ms  how long the holder may believe that it holds NAME
  unanswered      the nodes that did not answer, and may keep the key until it expires;
                  absent if all did
`

func breakFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	cli.GuardFlag(f)
	yes := f.Bool("yes", false, "do not ask")
	return func(ctx context.Context, c *cli.Invocation) int { return runBreak(ctx, c, *yes) }
}

func runBreak(ctx context.Context, c *cli.Invocation, yes bool) int {
	name, err := c.Name()
	if err != nil {
		return c.Misused("%v", err)
	}
	maxTTL, err := c.MaxTTL()
	if err != nil {
		return c.Misused("%v", err)
	}
	nodes, err := c.Nodes()
	if err != nil {
		return c.Misused("%v", err)
	}
	group, err := query.Open(nodes)
	if err != nil {
		return c.Misused("%v", err)
	}
	defer group.Close()
	longest := cmp.Or(maxTTL, redlock.DefaultMaxTTL)
	locker, err := c.Open(nodes, maxTTL, cli.NodeTimeout(longest))
	if err != nil {
		return c.Misused("%v", err)
	}
	defer cli.CloseSoon(locker)
	inspect := func(ctx context.Context) error {
		_, err := locker.Inspect(ctx, name)
		return err
	}
	if err := cli.CheckArguments(ctx, inspect); err != nil {
		return c.Misused("%v", err)
	}
	br := &breaker{
		group: group, locker: locker, guard: cli.RestartGuard{Locker: locker, MaxTTL: maxTTL}, longest: longest,
		name: name, key: c.Prefix() + name,
	}
	return br.breakLock(ctx, c, yes)
}

func (br *breaker) breakLock(ctx context.Context, c *cli.Invocation, yes bool) int {
	if err := br.find(ctx); err != nil {
		c.Fail(err, "%s: %v", br.name, err)
		return breakStatus(err)
	}
	if !yes && !br.confirmed(c) {
		held := &redlock.HeldError{Owner: br.owner(), ID: command.ID(br.token), Remaining: br.remaining}
		c.Fail(fmt.Errorf("%w: %w", errDeclined, held), "%s is not broken", br.name)
		return cli.ExitFailed
	}
	believes, err := br.delete(ctx)
	if err != nil {
		c.Fail(err, "%s: %v", br.name, err)
		return breakStatus(err)
	}
	if c.JSON {
		_ = c.PrintJSON(breakJSON{br.name, true, br.owner(), command.ID(br.token), believes.Milliseconds(), br.unanswered})
		return cli.ExitOK
	}
	_, _ = fmt.Fprintf(c.Stdout, "%s is broken. Its holder, %s%s, may believe for %v more that it holds it,\n"+
		"or for its whole TTL if it extended the lock at this very moment.\n",
		oneline.Printable(br.name), cli.Holder(br.owner()), cli.WithID(command.ID(br.token)), believes.Round(time.Millisecond))
	if len(br.unanswered) > 0 {
		_, _ = fmt.Fprintf(c.Stdout, "No answer from %s, which may keep the key until it expires.\n", oneline.List(br.unanswered, ", "))
	}
	return cli.ExitOK
}

type breakJSON struct {
	Name         string   `json:"name"`
	Broken       bool     `json:"broken"`
	Owner        string   `json:"owner"`
	ID           string   `json:"id"`
	MayBelieveMS int64    `json:"may_believe_ms"`
	Unanswered   []string `json:"unanswered,omitempty"`
}

// maxAnswer bounds what is read as the answer to the question.
const maxAnswer = 16

// confirmed shows the lock, and reports whether the user wants to break it.
func (br *breaker) confirmed(inv *cli.Invocation) bool {
	inv.Say("%s", fmt.Sprintf("%s is held by %s for %s, on %s%s", oneline.Printable(br.name), cli.Holder(br.owner()), cli.Left(br.remaining),
		oneline.List(br.holding, ", "), cli.WithID(command.ID(br.token))))
	_, _ = fmt.Fprint(inv.Stderr, "Its holder is not stopped. Break the lock? [y/N] ")
	line, _ := bufio.NewReader(io.LimitReader(inv.Stdin, maxAnswer)).ReadString('\n')
	if line == "" { // the input has ended, as without a terminal
		_, _ = fmt.Fprintln(inv.Stderr)
		inv.Say("there was no answer: --yes breaks a lock without a question")
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// breaker takes one lock from its holder.
type breaker struct {
	group  *query.Group
	locker *redlock.Locker
	guard  cli.RestartGuard
	// longest is the longest TTL that a lock can have.
	longest time.Duration
	name    string
	key     string

	token     string // never printed
	remaining time.Duration
	holding   []string // the nodes that have the token

	unanswered []string // the nodes that did not answer right before the deletion
}

// Why a lock is not broken, beside the library's errors.
var (
	errFree      = cli.CodedError("free", "no client holds it on a quorum of the nodes, so there is nothing to break")
	errDeclined  = cli.CodedError("declined", "the answer was not yes")
	errNoToken   = cli.CodedError("foreign_key", "its key is no lock of this library, and is not touched: its value is no token")
	errNoExpiry  = cli.CodedError("foreign_key", "its key is no lock of this library, and is not touched: it has no expiry")
	errUndecided = fmt.Errorf("%w: too few nodes answered to tell who holds it", redlock.ErrNoQuorum)
)

func (br *breaker) owner() string { return command.Owner(br.token) }

// breakStatus returns the exit status for an error.
func breakStatus(err error) int {
	switch {
	case errors.Is(err, errFree), errors.Is(err, errNoToken), errors.Is(err, errNoExpiry):
		return cli.ExitFailed
	case errors.Is(err, redlock.ErrLost), errors.Is(err, redlock.ErrTooLate):
		return cli.ExitLost
	}
	return cli.Refusal(err)
}

// find finds the token that a quorum of the nodes has.
func (br *breaker) find(ctx context.Context) error {
	all, errs, err := br.read(ctx)
	if err != nil {
		return err
	}
	values, foreign, why := make(map[string]int), 0, errNoExpiry
	for _, state := range all {
		switch {
		case state.Free():
		case !command.WellFormed(state.Value):
			foreign, why = foreign+1, errNoToken
		case state.TTL < 0:
			foreign++
		default:
			values[state.Value]++
		}
	}
	need := br.group.Need()
	silent, most := len(all)-query.Answered(errs), foreign
	for token, n := range values {
		most = max(most, n)
		if n >= need {
			br.token = token
			br.note(all)
			return nil
		}
	}
	switch {
	case foreign >= need || foreign > 0 && len(values) == 0:
		return why
	case silent > 0 && most+silent >= need:
		return errUndecided
	}
	return errFree
}

// note records which nodes have the token, and for how long at most.
func (br *breaker) note(all []command.KeyState) {
	br.holding, br.remaining = nil, 0
	for i, state := range all {
		if state.Value == br.token {
			br.holding = append(br.holding, br.group.Nodes[i].Name())
			br.remaining = max(br.remaining, state.TTL)
		}
	}
}

// read reads the key on all nodes. A node with an error has the zero state.
func (br *breaker) read(ctx context.Context) (all []command.KeyState, errs []error, err error) {
	ctx, cancel := context.WithTimeout(ctx, cli.ColdTimeout)
	defer cancel()
	all, errs = make([]command.KeyState, len(br.group.Nodes)), make([]error, len(br.group.Nodes))
	for i, a := range query.Ask(query.VoteGroup(br.group.Nodes...), br.key).Answers(ctx) {
		if errs[i] = a.Err; a.Err == nil {
			all[i] = a.States[0]
		}
	}
	if err := br.group.Quorum(errs); err != nil {
		return nil, nil, err
	}
	return all, errs, nil
}

// delete deletes the token on all nodes, by a release in place of the holder. It returns how long
// the holder may believe that it holds the lock.
//
// The holder's validity is supported by a quorum of nodes, of which at least one answers, and ends
// before that node's key would have expired. So the longest TTL is a bound. An extension between the
// reading and the deletion escapes it.
func (br *breaker) delete(ctx context.Context) (believes time.Duration, err error) {
	// The TTL must leave room for the node timeout, however little of the lock's own is left. No key is
	// set to it.
	claim := redlock.Claim{Names: []string{br.name}, Token: br.token, TTL: min(max(br.remaining, 4*cli.ColdTimeout), br.longest)}
	lock, err := br.guard.Resume(ctx, claim)
	if errors.Is(err, redlock.ErrInvalid) { // the token's label is not one of this library's
		err = errNoToken
	}
	if err != nil {
		return 0, fmt.Errorf("nothing was deleted: %w", err)
	}
	all, errs, err := br.read(ctx)
	if err != nil {
		_, _ = lock.Detach()
		return 0, fmt.Errorf("nothing was deleted: %w", err)
	}
	for i, err := range errs {
		if err != nil {
			br.unanswered = append(br.unanswered, br.group.Nodes[i].Name())
		}
	}
	br.note(all) // the holder may have extended the lock since it was shown
	if err := lock.Release(ctx); err != nil {
		return 0, fmt.Errorf("the lock is not surely broken: %w", err)
	}
	const truncated = time.Millisecond // by PTTL
	return br.remaining + truncated, nil
}
