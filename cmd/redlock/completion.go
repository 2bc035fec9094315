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

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/list"
)

// shells are the shells for which there is a completion script.
var shells = []string{"bash", "zsh", "fish", "powershell"}

func completionEntry() *cli.Subcommand {
	cmd := &cli.Subcommand{
		Command: &cobra.Command{
			Use:   "completion [flags] " + strings.Join(shells, "|"),
			Short: "print a script with which a shell completes redlock's words",
			Long: `It completes subcommands, flags, the COMMAND of redlock run, and the NAMEs of redlock
status and break. Behind COMMAND it offers files, and not COMMAND's own words. For a NAME
it searches the nodes as redlock list does, for half a second at most, and offers up to
200 names that are held on a node. It offers none if no node can be reached.

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
		ExitStatuses: []cli.ExitStatus{cli.EndsWell, cli.EndsMisused, cli.EndsUnwritten},
		NoJSON:       "what it prints is a script",
	}
	cmd.Define = func(*pflag.FlagSet) cli.RunFunc {
		return func(_ context.Context, c *cli.Invocation) int {
			words, root := c.Words(), cmd.Root()
			if len(words) != 1 {
				return c.Misused("one shell is needed, %d given: %s", len(words), strings.Join(shells, ", "))
			}
			switch words[0] {
			case "bash":
				_ = root.GenBashCompletionV2(c.Stdout, true) // ReportOutput reports its error
			case "zsh":
				_ = root.GenZshCompletion(c.Stdout)
			case "fish":
				_ = root.GenFishCompletion(c.Stdout, true)
			case "powershell":
				_ = root.GenPowerShellCompletionWithDesc(c.Stdout)
			default:
				return c.Misused("no completion for %q: the shells are %s", words[0], strings.Join(shells, ", "))
			}
			return cli.ExitOK
		}
	}
	return cmd
}

// bindCompletion has a shell complete the words of a subcommand.
func bindCompletion(cmd *cli.Subcommand, inv *cli.Invocation) {
	complete := completeName
	switch {
	case cmd.TakesCommand:
		complete = completeCommand
	case !cmd.HeldName:
		return
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		inv.Command = cmd
		return complete(inv, words, typed)
	}
}

// completeName offers the held names that begin with what is typed. It says nothing, whatever happens: that
// would stand in the line that is typed.
func completeName(inv *cli.Invocation, words []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	inv.Stderr = nil // writing to it fails
	if len(words) > 0 || cli.EmptyFlag(inv.Command.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	nodes, err := inv.Nodes()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, name := range list.HeldNames(inv.Command.Context(), nodes, inv.Prefix(), typed) {
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
func completeCommand(inv *cli.Invocation, words []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	switch at := inv.Command.ArgsLenAtDash(); {
	case !inv.HasDashes: // cobra adds some to find out what is a flag, so at says nothing
		return nil, cobra.ShellCompDirectiveNoFileComp
	case len(words) > at || strings.ContainsRune(typed, filepath.Separator):
		return nil, cobra.ShellCompDirectiveDefault
	}
	for _, folder := range filepath.SplitList(inv.Getenv("PATH")) {
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
