package list

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/query"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/watch"
	"github.com/quorumlock/go-redlock/internal/command"
)

// Subcommand returns `list`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "list [flags] [PREFIX]",
			Short: "list the names that are held, by which owner, and for how long",
			Long:  listAbout,
			Example: "  redlock list --nodes redis://a:6379,redis://b:6379,redis://c:6379 invoice/\n" +
				"  redlock list --json | jq -r '.names[].name'\n" +
				"  redlock list --watch invoice/",
		},
		Define: listFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "a quorum was searched to the end; with --watch, it was ended by Ctrl-C or SIGTERM"),
			cli.Ends(cli.ExitFailed, "--limit or --timeout ended the search: more names may be held"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "no quorum of nodes could be searched; nothing is listed; --watch continues"),
			cli.EndsUnwritten,
			cli.Ends(cli.ExitSignal, "signal n ended the search; nothing is listed"),
		},
	}
}

const listAbout = `It lists the locks of this library whose names begin with PREFIX, or all of them. *, ? and
[ in PREFIX mean themselves. It changes nothing, and shows no token.

The list is no snapshot. Locks are acquired and released while it searches, and it may be
out of date when it is read. A lock that is held during the whole search is listed.

It searches each node's keys (SCAN), which takes a while if there are many, and then asks
all nodes who holds what was found. The user of the nodes needs the right to SCAN
(ACL SETUSER … +scan). FENCE is the largest fence that a quorum of nodes has given out for
the name: the holder's own, if the holder uses fencing. Without the right to read
redlock:fence:* use --no-fence.

A ? marks a name that may be held: too few nodes answered to tell.

With --watch it repeats the search every --interval until it is ended. On a terminal it
overwrites the output. Otherwise it prints when something has changed: the names, their
holders, or the nodes that answer. An extension is no change.

With --json it prints one object, and with --watch one per line:
  at         the time of the search; only with --watch
  complete   false: --limit or --timeout ended the search, and more names may be held
  names      for each name that is held, in order
    name     the lock
    name_base64
             the bytes of the name; only if they are not valid UTF-8
    state    "held", or "unclear": too few nodes answered to tell
    owner    the holder's label, "" if it has none
    id       the ID of the holder's lock, as its logs show it
    left_ms  how long a quorum keeps it unless it is released or extended;
             -1 without an expiry; only when held
    fence    as above; absent if there is none
  nodes      for each node
    node     its name
    error    why it could not be searched; absent if it was
`

// Bounds of --limit and --timeout.
const (
	defaultLimit   = 1000
	maxLimit       = 100_000
	defaultTimeout = 30 * time.Second
	maxTimeout     = 10 * time.Minute
	maxKeyPrefix   = 512 // the library's bound, in bytes
)

// listCommand holds the flags of `list`.
type listCommand struct {
	noFence *bool
	limit   *int
	timeout *time.Duration
	watch   watch.Flags
}

func listFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	d := &listCommand{watch: watch.NewFlags(f)}
	d.noFence = f.Bool("no-fence", false, "do not read the fences")
	d.limit = f.Int("limit", defaultLimit, "end the search after this `number` of names, up to 100000 (default: 1000)")
	d.timeout = cli.DurationFlag(f, "timeout", defaultTimeout, "end the search after this time, up to 10m (default: 30s)")
	return d.run
}

func (d *listCommand) run(ctx context.Context, c *cli.Invocation) int {
	words := c.Words()
	if len(words) > 1 {
		return c.Misused("one PREFIX is enough, %d given", len(words))
	}
	start := strings.Join(words, "")
	keyPrefix := c.Prefix()
	switch {
	case cli.CheckName(start) != nil:
		return c.Misused("%v", cli.CheckName(start))
	case strings.HasPrefix(keyPrefix, command.Reserved) || len(keyPrefix) > maxKeyPrefix:
		return c.Misused("--prefix %q: at most %d bytes, and not %q", keyPrefix, maxKeyPrefix, command.Reserved)
	case strings.HasPrefix(keyPrefix+start, command.Reserved):
		return c.Misused("the keys %q are in the reserved namespace %q", keyPrefix+start, command.Reserved)
	case *d.limit < 1 || *d.limit > maxLimit:
		return c.Misused("--limit must be from 1 to %d", maxLimit)
	case *d.timeout <= 0 || *d.timeout > maxTimeout:
		return c.Misused("--timeout must be more than 0, and at most %v", maxTimeout)
	case d.watch.Check() != nil:
		return c.Misused("%v", d.watch.Check())
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
	if *d.watch.On {
		return watch.Run(ctx, c, d.watch, func(ctx context.Context) (watch.View, error) {
			s := newSearch(group, keyPrefix, start, *d.limit, !*d.noFence)
			s.failed = s.run(ctx, *d.timeout)
			return s, nil
		})
	}
	ctx, stop := cli.Listen().Until(ctx)
	defer stop()
	s := newSearch(group, keyPrefix, start, *d.limit, !*d.noFence)
	if err := s.run(ctx, *d.timeout); err != nil {
		return c.Refused(err)
	}
	if c.JSON {
		c.Result = s.Object(nil)
	} else {
		s.Print(c.Printer())
	}
	if s.cut != nil {
		c.FailSilently(s.cut, s.cut.Error())
		return cli.ExitFailed
	}
	return cli.ExitOK
}
