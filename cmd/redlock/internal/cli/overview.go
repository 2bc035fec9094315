package cli

// Overview is the help on what subcommands have in common.
const Overview = `redlock holds locks over several independent Redis nodes, by quorum. A place to begin: redlock demo

--nodes or REDLOCK_NODES contains the nodes: URLs separated by commas, the same for all
clients of the same locks. For example
  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
Write a comma in a password as %2C. Other users of the machine can read command lines: put
a URL with a password into the variable, or into a file. --nodes-file or
REDLOCK_NODES_FILE names a file with such a list, or with one URL per line. Neither has
quotes or comments.

A flag takes precedence over the variables. --nodes together with --nodes-file is refused,
as are both variables: clients with different lists do not exclude each other. In the same
way REDLOCK_GUARD replaces --guard, for guarded nodes, and REDLOCK_PREFIX replaces
--prefix, for nodes that store other data as well.

For rediss URLs --cacert names a file with the certificate authority, if the system does
not have it. --cert and --key name the client's certificate, if the nodes require one. The
files are read at every connection, so certificates can be renewed.

With --json a subcommand that fails prints one object on standard output, or adds these
fields to its result. redlock run prints it on standard error, because standard output is
its COMMAND's.
  error       what failed
  code        its kind: usage, held, split, quarantined, no_quorum, too_late, lost,
              foreign_key, free, declined, incomplete, guard, not_admitted, signal, system,
              not_executable, not_found, or failed for anything else
  owner       the label of the holder, if there is one
  id          the ID of the holder's lock, if the holder is a client of this library
  left_ms     how long the holder or a quarantine has left, if known; -1 without an expiry
  reason      only redlock run, of a lock that was lost: gone (deleted or forgotten by the
              nodes), no_quorum, paused (redlock did not run) or max_hold
  overlap_ms  with a reason: the longest time in which another client may have held NAME

Flags may precede and follow other words; -w follows its subcommand. Colours appear only on a terminal, and not if
NO_COLOR is set.
`
