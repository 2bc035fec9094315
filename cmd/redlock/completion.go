package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shells are the shells for which there is a completion script.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionEntry() *subcommand {
	cmd := &subcommand{
		Command: &cobra.Command{
			Use:   "completion [flags] " + strings.Join(shells, "|"),
			Short: "print a script with which a shell completes redlock's words",
			Long: `It completes subcommands, flags, the COMMAND of redlock run, and the NAMEs of redlock
status and break. For a NAME it searches the nodes as redlock list does, for half a second
at most, and offers up to 200 names that are held on a node. It offers none if no node can
be reached.

The script goes where the shell looks for it. For bash the package bash-completion is
needed.
  bash        source <(redlock completion bash)    in ~/.bashrc
  zsh         source <(redlock completion zsh)     in ~/.zshrc, below compinit
  fish        redlock completion fish | source     in ~/.config/fish/config.fish
  powershell  redlock completion powershell | Out-String | Invoke-Expression    in $PROFILE
`,
			Example:   "  redlock completion bash >/etc/bash_completion.d/redlock",
			ValidArgs: shells,
		},
		exitStatuses: []exitStatus{endsWell, endsMisused, endsUnwritten},
		noJSON:       "what it prints is a script",
	}
	cmd.flags = func(*pflag.FlagSet) runFunc {
		return func(_ context.Context, c *invocation) int {
			words, root := c.all(), cmd.Root()
			if len(words) != 1 {
				return c.misused("one shell is needed, %d given: %s", len(words), strings.Join(shells, ", "))
			}
			switch words[0] {
			case "bash":
				_ = root.GenBashCompletionV2(c.stdout, true) // reportOutput reports its error
			case "zsh":
				_ = root.GenZshCompletion(c.stdout)
			case "fish":
				_ = root.GenFishCompletion(c.stdout, true)
			case "powershell":
				_ = root.GenPowerShellCompletionWithDesc(c.stdout)
			default:
				return c.misused("no completion for %q: the shells are %s", words[0], strings.Join(shells, ", "))
			}
			return exitOK
		}
	}
	return cmd
}

// bindCompletion has a shell complete files for flags that name one, and the words of a subcommand.
func bindCompletion(cmd *subcommand, inv *invocation) {
	for _, name := range nodeFlags[1:] {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)) // an error: it has no such flag
	}
	complete := completeName
	switch {
	case cmd.takesCommand:
		complete = completeCommand
	case !cmd.heldName:
		return
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		inv.command = cmd
		return complete(inv, words, typed)
	}
}

// completeName offers the held names that begin with what is typed. It says nothing, whatever happens: that
// would stand in the line that is typed.
func completeName(inv *invocation, words []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	inv.stderr = nil // writing to it fails
	if len(words) > 0 || emptyFlag(inv.command.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	nodes, err := inv.nodes()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range heldNames(inv.command.Context(), nodes, inv.prefix(), typed) {
		if !strings.ContainsFunc(name, untyped) && !strings.HasPrefix(name, "-") {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// untyped reports whether a character does not stand in a word of a shell.
func untyped(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
}

// completeCommand offers the programs of PATH behind --, and files behind a program.
func completeCommand(inv *invocation, words []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	switch at := inv.command.ArgsLenAtDash(); {
	case !inv.hasDashes: // cobra adds some to find out what is a flag, so at says nothing
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(words) > at || strings.ContainsRune(typed, filepath.Separator):
		return nil, cobra.ShellCompDirectiveDefault
	}
	for _, folder := range filepath.SplitList(inv.getenv("PATH")) {
		entries, _ := os.ReadDir(folder) // PATH may name folders that are not there
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), typed) {
				if _, err := exec.LookPath(filepath.Join(folder, e.Name())); err == nil {
					names = append(names, e.Name())
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), cobra.ShellCompDirectiveNoFileComp
}
