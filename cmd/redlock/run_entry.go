package main

func runEntry() command {
	return command{
		name:    "run",
		words:   "NAME -- COMMAND [ARG…]",
		summary: "hold a lock while a command runs",
		flags:   runFlags,
		about:   runAbout,
		exitStatuses: []exitStatus{
			{childStatus, "COMMAND's own"},
			{exitSignal, "signal n ended COMMAND, or the wait for NAME"},
			endsMisused,
			endsNoQuorum,
			{exitSystem, "this machine could not start what is needed"},
			{exitLost, "the lock was lost under way, whatever COMMAND's own status was"},
			endsHeld,
			endsUnguarded,
			{exitNotExecutable, "COMMAND can't be executed"},
			{exitNotFound, "COMMAND was not found"},
		},
		examples: []string{
			"redlock run --ttl 30s --wait 0 nightly-report -- ./report.sh --mail",
			`redlock run ledger -- sh -c 'psql -v fence="$REDLOCK_FENCE" -f book.sql'`,
		},
		noJSON: "what is printed is COMMAND's; `redlock status --json NAME` tells who holds NAME",
	}
}

const runAbout = `COMMAND runs only while NAME is held: the lock is extended as long as it runs, and
given back when it has ended. COMMAND's environment has

  REDLOCK_NAME   the lock's name
  REDLOCK_ID     the ID of this acquisition, for logs and databases: no other has it
  REDLOCK_FENCE  a number that is larger than that of all who held NAME before; with
                 --no-fence it is empty
  REDLOCK_TOKEN  only with --export-token: whoever knows it can release the lock

A database that remembers the largest fence it has seen, and turns smaller ones away, is
safe from a COMMAND that goes on too late. The masters count fences in
redlock:fence:NAME, which lives for 7 days.

COMMAND does not inherit REDLOCK_NODES and REDLOCK_NODES_FILE, which may contain
passwords or lead to them. A COMMAND that calls redlock itself takes --nodes-file.

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
the most. It refuses at once, whatever --wait says, where no master is under the guard yet:
redlock doctor --begin-guard or --admit begins it. So do masters that are guarded with
another maxTTL, or for another list of masters.
`
