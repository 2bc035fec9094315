package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// help prints the help of one subcommand.
func (f *flagSet) help(w io.Writer) {
	cmd := f.command
	_, _ = fmt.Fprintf(w, "redlock %s: %s.\n\nUsage: %s\n", cmd.name, cmd.summary, cmd.usage())
	_, _ = fmt.Fprint(w, "\nFlags:\n")
	for _, def := range append(f.all(), helpOption) {
		usage := folded(def.usage, columns-23, "\n"+strings.Repeat(" ", 23))
		_, _ = fmt.Fprintf(w, "  %-20s %s\n", def.label(), usage)
	}
	_, _ = fmt.Fprintf(w, "\n%s\nExit status:\n", cmd.about)
	for _, e := range cmd.exitStatuses {
		_, _ = fmt.Fprintf(w, "  %-6s %s\n", e.label(), folded(e.when, columns-9, "\n         "))
	}
	_, _ = fmt.Fprint(w, "\nExample:\n")
	for _, example := range cmd.examples {
		_, _ = fmt.Fprintf(w, "  %s\n", example)
	}
}

// usage returns the usage line of a subcommand.
func (cmd subcommand) usage() string {
	parts := []string{"redlock", cmd.name}
	if len(newFlagSet(cmd).all()) > 0 {
		parts = append(parts, "[FLAG…]")
	}
	if cmd.args != "" {
		parts = append(parts, cmd.args)
	}
	return strings.Join(parts, " ")
}

// option is a flag as help prints it.
type option struct {
	name   string
	letter string // its second name; "" if there is none
	arg    string // its argument; "" for a switch
	usage  string
}

// helpOption is a flag of every subcommand. Package flag knows it.
var helpOption = option{name: "help", letter: "h", usage: "say how it is used"}

// words returns the names as they are typed.
func (o option) words() []string {
	if o.letter == "" {
		return []string{"--" + o.name}
	}
	return []string{"-" + o.letter, "--" + o.name}
}

// label returns the names and the argument, as help shows them.
func (o option) label() string { return strings.TrimSpace(strings.Join(o.words(), ", ") + " " + o.arg) }

// all returns the flags, sorted by name.
func (f *flagSet) all() (options []option) {
	f.VisitAll(func(def *flag.Flag) {
		if len(def.Name) == 1 {
			return // the second name of another one
		}
		arg, usage := flag.UnquoteUsage(def)
		if _, ok := def.Value.(*durationValue); ok && arg == "value" {
			arg = "duration"
		}
		options = append(options, option{def.Name, f.letters[def.Name], arg, usage})
	})
	return options
}

// folded breaks a text between words, so that no line is wider than width.
func folded(text string, width int, lineBreak string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), lineBreak)
}

// overview prints the list of subcommands.
func overview(w io.Writer) {
	_, _ = fmt.Fprint(w, "redlock holds locks over several independent Redis nodes, by quorum.\n\nUsage:\n")
	for _, cmd := range commands() {
		_, _ = fmt.Fprintf(w, "  redlock %-11s %s\n", cmd.name, cmd.summary)
	}
	_, _ = fmt.Fprint(w, "\n"+overviewText+"\nA place to begin: redlock demo\n")
}

const overviewText = `"redlock help COMMAND" or "redlock COMMAND -h" shows more, with an example.

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

Flags may precede and follow other words. Colours appear only on a terminal, and not if
NO_COLOR is set.
`
