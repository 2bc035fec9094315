package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the whole command, bound to an invocation.
func newRoot(inv *invocation) *cobra.Command {
	root := &cobra.Command{
		Use:     "redlock",
		Short:   "hold locks over several independent Redis nodes, by quorum",
		Long:    overviewText,
		Version: versionOf(debug.ReadBuildInfo()).String(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if inv.asJSON {
				return errors.New("a command is needed")
			}
			cmd.SetOut(inv.stderr)
			inv.status = exitUsage
			return cmd.Help()
		},
		SilenceErrors:              true,
		SilenceUsage:               true,
		FParseErrWhitelist:         cobra.FParseErrWhitelist{UnknownFlags: true},
		SuggestionsMinimumDistance: suggestionDistance,
	}
	root.SetOut(inv.stdout)
	root.SetErr(inv.stderr)
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", columns)))
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for _, cmd := range commands() {
		cmd.bind(inv)
		root.AddCommand(cmd.Command)
	}
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	nameValues(root.Flags())
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Run = nil // it ends with 0 also if there is no such command
	help.RunE = func(_ *cobra.Command, words []string) error {
		cmd, _, err := root.Find(words)
		if err != nil {
			return unknownCommand(root, words)
		}
		return cmd.Help()
	}
	return root
}

// unknownCommand returns an error if words name no command.
func unknownCommand(root *cobra.Command, words []string) error {
	if _, _, err := root.Find(words); err == nil {
		return nil
	}
	_ = root.ParseFlags(words) // unknown ones are allowed
	word := root.Flags().Arg(0)
	similar := root.SuggestionsFor(word)
	if word == "" {
		similar = nil // every command begins with it
	}
	return fmt.Errorf("there is no command %q%s", word, didYouMean(similar))
}

// suggestionDistance is by how many letters a wrong word may differ from the one that is suggested.
const suggestionDistance = 2

// didYouMean returns a hint at words, or an empty text if there are none.
func didYouMean(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(words, " or ") + "?"
}

const overviewText = `redlock holds locks over several independent Redis nodes, by quorum. A place to begin: redlock demo

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
