package main

func runEntry() command {
	return command{
		name:    "run",
		words:   "NAME -- COMMAND [ARG…]",
		summary: "hold a lock while a command runs",
		flags:   runFlags,
		about:   runAbout,
		endings: []ending{
			{theirs, "COMMAND's own"},
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
given back when it has ended. COMMAND's environment has REDLOCK_NAME,
REDLOCK_TOKEN (who knows the token can release the lock) and REDLOCK_FENCE, a number
that is larger than that of all who held NAME before: a database that remembers the
largest it has seen, and turns smaller ones away, is safe from a COMMAND that goes on
too late. The masters count it in redlock:fence:NAME, which lives for 7 days; with
--no-fence it is empty.

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
the most. New masters wait, too, once: see redlock doctor --admit. Masters that are
guarded with another maxTTL, or for another list of masters, refuse at once, whatever
--wait says.
`
