package run

import (
	"github.com/spf13/cobra"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
)

// Subcommand returns `run`.
func Subcommand() *cli.Subcommand {
	return &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "run [flags] NAME -- COMMAND [ARG…]",
			Short: "hold a lock while a command runs",
			Long:  runAbout,
			Example: "  redlock run --ttl 30s --wait 0 nightly-report -- ./report.sh --mail\n" +
				"  redlock run --wait 0 --min-hold 1m --skip-status 0 hourly -- ./job.sh  # for cron\n" +
				`  redlock run ledger -- sh -c 'psql -v fence="$REDLOCK_FENCE" -v id="$REDLOCK_ID" -f book.sql'`,
		},
		Define: runFlags, TakesCommand: true,
		ExitStatuses: []cli.ExitStatus{
			cli.Ends(cli.ChildStatus, "COMMAND's own"),
			cli.Ends(cli.ExitSignal, "signal n ended COMMAND, or the wait for NAME"),
			cli.EndsMisused,
			cli.EndsForeign,
			cli.EndsNoQuorum,
			cli.Ends(cli.ExitSystem, "this machine could not start a process that is needed"),
			cli.Ends(cli.ExitLost, "the lock was lost while COMMAND ran, whatever its own status was"),
			cli.Ends(cli.ExitHeld, "NAME is held elsewhere (unless --skip-status is given), or too many nodes are quarantined (--guard)"),
			cli.EndsUnguarded,
			cli.Ends(cli.ExitNotExecutable, "COMMAND cannot be executed"),
			cli.Ends(cli.ExitNotFound, "COMMAND was not found"),
		},
	}
}

const runAbout = `COMMAND runs only while NAME is held. The lock is extended as long as COMMAND runs, and
released when it has ended. COMMAND's environment contains

  REDLOCK_NAME   the lock's name
  REDLOCK_ID     the unique ID of this acquisition, for logs and databases
  REDLOCK_FENCE  a number larger than those of all locks on NAME that were acquired
                 before this one was asked for; empty with --no-fence
  REDLOCK_TOKEN  only with --export-token: the token, which can release the lock

A database is safe from a COMMAND that continues too late if each transaction checks the
fence before it reads. It accepts one that is larger than the stored one, or equal with
the same REDLOCK_ID, and stores both. (docs/safety.md says when fences increase.) The nodes
count fences in redlock:fence:NAME, a key with a TTL of 7 days.

COMMAND does not inherit REDLOCK_NODES and REDLOCK_NODES_FILE, because they may contain
passwords or lead to them. A COMMAND that calls redlock itself uses --nodes-file.

If another client holds NAME, a line on the terminal shows the holder and the time left.

For a job that cron starts on every machine, --skip-status 0 ends redlock in silence if
another machine runs the job: cron mails what a job prints. If clients split the votes, so
that perhaps none of them got NAME, redlock still ends with 75 and a message. --min-hold
keeps NAME held after COMMAND has ended: set it to more than the difference of the
machines' clocks, or a machine whose clock is behind runs a short job again. After a crash
NAME stays held for the longer of --ttl and --min-hold.

COMMAND has its own process group. The group receives the signals that redlock receives:
HUP, INT, QUIT, TERM, USR1, USR2, WINCH, TSTP, CONT. On a terminal it is the foreground
group. Ctrl-Z stops redlock as well, and then the lock is not extended.

If the lock is lost, or cannot be extended, redlock says why and for how long another
client may have held it. The group gets SIGTERM, at the latest --grace before the lock's
validity ends, and SIGKILL before the validity ends. If redlock is killed, or stopped for
too long, another process kills the group. When COMMAND has ended, processes that remain
in its group get SIGTERM, and SIGKILL after --grace. On Linux so do those that have left the
group, as timeout does in a script; elsewhere, if redlock is killed or stopped, or if a shell
that had background jobs became redlock (exec), these continue without the lock. A program
that starts its own session, as daemons do, always continues.
If a process can't be killed, because it is another user's, the lock is not released, and
expires. On Linux redlock reaps orphans of COMMAND while COMMAND runs, also as the first
process of a container.

With --guard a node that was started, emptied or promoted does not vote until every lock
that it may have forgotten has expired. --guard is the longest --ttl of all clients.
redlock refuses at once, whatever --wait says, if no node is under the guard yet: begin it
with redlock doctor --begin-guard or --admit. Nodes that are guarded with another maxTTL,
or for another list of nodes, refuse as well.

With --json it prints one object if it fails itself, on one line of standard error, where
COMMAND and redlock's other messages may print as well: see redlock help. COMMAND's own
status is no failure of redlock.
`
