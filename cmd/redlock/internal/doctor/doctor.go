package doctor

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/stage"
	"github.com/quorumlock/go-redlock/internal/examine"
	"github.com/quorumlock/go-redlock/internal/oneline"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// Subcommand returns `doctor`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "doctor [flags]",
			Short: "check whether nodes are fit to vote",
			Long:  doctorAbout,
			Example: "  redlock doctor --nodes redis://a:6379,redis://b:6379,redis://c:6379\n" +
				"  redlock doctor --guard 1m --admit  # before the first client is started\n" +
				"  redlock doctor --guard 1m --begin-guard  # while clients without the guard may hold locks",
		},
		Define: doctorFlags,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ExitOK, "no errors found; with --admit, all nodes are admitted; with --begin-guard, all nodes vote"),
			cli.Ends(cli.ExitFailed, "an error was found, or a node was not admitted; with --begin-guard the message says what was changed"),
			cli.EndsMisused,
			cli.Ends(cli.ExitUnavailable, "--begin-guard: the nodes did not vote in time"),
			cli.EndsUnwritten,
			cli.Ends(cli.ExitConfig, "--begin-guard: clients with another list or another maxTTL use the nodes"),
			cli.Ends(cli.ExitSignal, "signal n ended --begin-guard; the same command continues to wait"),
		},
	}
}

const doctorAbout = `It examines every node and reports whether it is fit to vote: a master, and not a replica,
Sentinel or member of a Cluster; another server than the others; one that evicts no keys
and accepts writes; with all rights that are needed. It tries the commands of a lock on
each node, on a key with --prefix, in ways that change nothing. The columns are
  ROLE      master, replica or sentinel
  REDIS     the version
  UP        how long the server has been running
  CLOCK     how far its clock is ahead of this machine's
  ANSWER    the duration of one request
  KEEPS     what it keeps across a restart: "fsync always" keeps every lock
  GUARD     with --guard, or if there is a marker: "ok", the rest of a quarantine,
            "none" (no marker yet), "outdated" (restarted since), "foreign" (another
            list of nodes or maxTTL), or "unreadable"
The findings follow, with their remedies. One finding about several nodes is printed once.
If users lack rights, an ACL SETUSER line for redis-cli grants all that is missing.
An error keeps a node from voting, a warning is a risk, and a note is worth knowing. The
last line says how many nodes can vote now, how many are needed, and so whether locks can
be taken.

--admit admits new nodes at once. Without it they wait for maxTTL under the guard. With it
you assert that no client of these nodes is running, nor was within the last maxTTL. It
refuses unless every node answers, is fit and has no marker of the guard yet. It also
refuses while a key with a TTL exists, because it may be a lock. It never ends a
quarantine. It scans all keys, which takes a while if there are many.

--begin-guard begins the restart guard on nodes where clients may hold locks. It writes a
marker to each node, which quarantines it for maxTTL, and waits until all nodes vote.
Clients without the guard are refused at their next connection. No client with it can
acquire a lock before the wait is over. Held locks stay held. It refuses if it finds an
error. If it was ended early, run the same command again: it continues to wait. Other
subcommands with --guard refuse to write the first marker.

With --json it prints one object:
  ok               no errors were found
  nodes            for each node
    node, address  its name and address
    answered       false: it did not answer, and only findings follow
    version, run_id, uptime_s, role, replicas, persistence, eviction, max_memory
    clock_offset_us, round_trip_us
    missing_rights in the form of ACL SETUSER
    guard          as in the table, or "quarantined", with quarantine_ms
    findings       each with a grade (error, warning, note), a code and a text
  clock_spread_us  the largest difference between the nodes' clocks
  findings         about all nodes together
  state            for a probe: "ok" (every node can vote now), "degraded" (enough can for a
                   lock, but not all), or "down" (no lock can be taken)
  can_vote, needed how many nodes can vote now, and how many a lock needs
`

func doctorFlags(f *pflag.FlagSet) cli.RunFunc {
	cli.NodeFlags(f)
	cli.GuardFlag(f)
	d := &doctorCommand{}
	f.BoolVar(&d.inside, "embedded", false, "examine three nodes inside this process, to see the output")
	f.BoolVar(&d.admit, "admit", false, "admit new nodes at once (see above)")
	f.BoolVar(&d.begins, "begin-guard", false, "begin the restart guard, and wait until all nodes vote under it (see above)")
	return d.examine
}

// doctorCommand holds the flags of `doctor`.
type doctorCommand struct {
	inside        bool
	admit, begins bool
	users         []string // of the nodes, in their order
}

func (d *doctorCommand) examine(ctx context.Context, c *cli.Invocation) int {
	guard, err := c.MaxTTL()
	switch {
	case err != nil:
		return c.Misused("%v", err)
	case len(c.Words()) > 0:
		return c.Misused("takes no NAME")
	case d.admit && guard == 0:
		return c.Misused("--admit needs --guard")
	case d.begins && guard == 0:
		return c.Misused("--begin-guard needs --guard")
	case d.begins && d.admit:
		return c.Misused("--begin-guard waits, and --admit skips the wait: give one of them")
	}
	nodes, end, err := stage.Nodes(c, d.inside)
	if err != nil {
		return c.Misused("%v", err)
	}
	defer end()
	d.users = nodes.Users()
	locker, err := c.Open(nodes, guard, cli.ColdTimeout)
	if err != nil {
		return c.Misused("%v", err)
	}
	defer cli.CloseSoon(locker)
	if d.begins {
		return d.begin(ctx, c, locker, nodes, guard)
	}
	ask := doctor.Diagnose
	if d.admit {
		ask = doctor.Admit
	}
	report, err := ask(ctx, locker)
	if report == nil {
		return c.Refused(err)
	}
	return d.print(c, report, err)
}

// print prints the report, and why an admission was refused.
func (d *doctorCommand) print(c *cli.Invocation, report *doctor.Report, err error) int {
	if c.JSON {
		c.Result = cli.Joined(report, ballotOf(report))
	} else {
		printReport(c.Printer(), report, d.users)
	}
	switch {
	case err != nil && c.JSON:
		c.Fail(err, "%v", err) // the error describes everything
		return cli.ExitFailed
	case err != nil:
		c.Fail(err, "%s", notAdmitted(report))
		return cli.ExitFailed
	case report.Failed():
		c.FailSilently(nil, "errors were found: "+ballotOf(report).String())
		return cli.ExitFailed
	case d.admit && !c.JSON:
		_, _ = fmt.Fprintln(c.Stdout, "They are admitted: clients can start.")
	}
	return cli.ExitOK
}

// notAdmitted says what became of an admission, below a report that says why.
func notAdmitted(report *doctor.Report) string {
	var admitted []string
	for _, n := range report.Nodes {
		if !slices.ContainsFunc(n.Findings, blocksAdmission) && n.Guard == examine.StateOK {
			admitted = append(admitted, n.Node)
		}
	}
	if admitted == nil {
		return "no node was admitted: see the errors above"
	}
	return "not all nodes were admitted, but " + oneline.List(admitted, ", ") + ": see the errors above"
}

// blocksAdmission reports whether a finding is why no node, or not this one, was admitted.
func blocksAdmission(f doctor.Finding) bool { return f.Code == "admission" }
