package status

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/watch"
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/quorum"
	"github.com/quorumlock/go-redlock/redlock"
)

// Subcommand returns `status`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "status [flags] NAME",
			Short: "show who holds a lock, on which nodes, and for how long",
			Long:  statusAbout,
			Example: "  redlock status --nodes redis://a:6379,redis://b:6379,redis://c:6379 invoice/42\n" +
				"  redlock status --watch --json invoice/42 | jq --unbuffered -r '.at, .state'",
		},
		HeldName: true,
		Define:   statusFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "a quorum answered; with --watch, it was ended by Ctrl-C or SIGTERM"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum answered (the other answers are printed); --watch continues"),
			cli.EndsUnwritten,
		},
	}
}

const statusAbout = `It queries all nodes once and changes nothing. The answer may be out of date when it is
read.

With --watch it repeats the query every --interval until it is ended. On a terminal it
overwrites the output. Otherwise it prints when something has changed: the state, the
holder, the nodes that hold the key, or the nodes that answer. An extension is no change.

With --json it prints one object, and with --watch one per line:
  at       the time of the query; only with --watch
  name     the lock
  state    "held": one holder has a quorum; "free": no client can have a quorum;
           "foreign": keys that are not locks leave no quorum;
           "unclear": too few nodes answered to tell
  owner    the holder's label, "" if it has none; only when held
  id       the ID of the holder's lock, as its logs show it; only when held by a client of
           this library
  left_ms  how long a quorum keeps it unless it is released or extended;
           -1 without an expiry; only when held
  nodes    for each node
    node      its name
    held      whether it holds a key of the lock
    owner     the label of that key's holder
    id        the ID of that key's lock
    left_ms   as above
    error     why it did not answer, or what is wrong with its key
`

func statusFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	watching := watch.NewFlags(f)
	return func(ctx context.Context, c *cli.Invocation) int {
		name, err := c.Name()
		if err != nil {
			return c.Misused("%v", err)
		}
		if err := watching.Check(); err != nil {
			return c.Misused("%v", err)
		}
		nodes, err := c.Nodes()
		if err != nil {
			return c.Misused("%v", err)
		}
		locker, err := c.Open(nodes, 0, cli.ColdTimeout, door.ForReads.(redlock.Option)) //nolint:forcetypeassert // package redlock sets it
		if err != nil {
			return c.Misused("%v", err)
		}
		defer cli.CloseSoon(locker)
		if *watching.On {
			return watch.Run(ctx, c, watching, func(ctx context.Context) (watch.View, error) {
				s, err := locker.Inspect(ctx, name)
				if s == nil {
					return nil, err
				}
				return (*statusView)(s), nil // without a quorum too
			})
		}
		return statusOnce(ctx, c, locker, name)
	}
}

func statusOnce(ctx context.Context, c *cli.Invocation, locker *redlock.Locker, name string) int {
	s, err := locker.Inspect(ctx, name)
	switch {
	case s == nil:
		return c.Refused(err)
	case c.JSON:
		c.Result = (*statusView)(s).Object(nil)
	default:
		(*statusView)(s).Print(c.Printer())
	}
	if err != nil {
		return c.Refused(err)
	}
	return cli.ExitOK
}

// state is the result of a status query.
type state string

const (
	held    state = "held"
	free    state = "free"
	foreign state = "foreign"
	unclear state = "unclear"
)

// stateOf returns the state of a lock. It is free only if no holder can have a quorum, counting
// every node that did not answer as held.
func stateOf(s *redlock.Status) state {
	if s.Held {
		return held
	}
	type holder struct{ owner, id string }
	silent, most, others, copies := 0, 0, 0, map[holder]int{}
	for _, n := range s.Nodes {
		switch {
		case errors.Is(n.Err, redlock.ErrForeignKey):
			others++
			silent++
		case n.Err != nil:
			silent++
		case n.Held:
			// Tokens of other libraries have neither: two of them count as one holder, which errs to
			// the side of unclear.
			h := holder{n.Owner, n.ID}
			copies[h]++
			most = max(most, copies[h])
		}
	}
	switch {
	case quorum.Blocks(len(s.Nodes), others):
		return foreign
	case silent > 0 && most+silent >= quorum.Majority(len(s.Nodes)):
		return unclear
	}
	return free
}
