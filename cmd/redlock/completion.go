package main

import (
	"context"
	"maps"
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
func (cmd *subcommand) bindCompletion(inv *invocation) {
	for _, name := range fileFlags {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)) // an error: it has no such flag
	}
	switch {
	case cmd.heldName:
		cmd.ValidArgsFunction = inv.completeName
	case cmd.takesCommand:
		cmd.ValidArgsFunction = inv.completeCommand
	}
}

// namesLimit bounds how many names are offered.
const namesLimit = 200

// completeName offers the held names that begin with what is typed.
func (inv *invocation) completeName(cmd *cobra.Command, words []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(words) > 0 || emptyFlag(cmd.Flags()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return inv.heldNames(cmd.Context(), cmd.Flags(), typed), cobra.ShellCompDirectiveNoFileComp
}

// heldNames searches the nodes that the flags or the environment name. It says nothing, whatever
// happens: that would stand in the line that is typed.
func (inv *invocation) heldNames(ctx context.Context, f *pflag.FlagSet, typed string) (names []cobra.Completion) {
	inv.stderr = nil // writing to it fails
	value := func(name string) *string {
		text := f.Lookup(name).Value.String()
		return &text
	}
	nodes, err := inv.nodes(nodeFlags{value("nodes"), value("nodes-file"), value("cacert"), value("cert"), value("key")})
	if err != nil {
		return nil
	}
	group, err := nodes.openGroup()
	if err != nil {
		return nil
	}
	defer group.close()
	prefix := inv.prefixText(&prefixValue{*value("prefix"), f.Changed("prefix")})
	ctx, cancel := context.WithTimeoutCause(ctx, namesTimeout, errTimeout)
	defer cancel()
	s := newSearch(group, prefix, typed, namesLimit, false)
	s.scan(ctx)
	for _, key := range slices.Sorted(maps.Keys(s.found)) {
		if name := strings.TrimPrefix(key, prefix); !strings.ContainsFunc(name, untyped) && !strings.HasPrefix(name, "-") {
			names = append(names, name)
		}
	}
	return names
}

// untyped reports whether a character does not stand in a word of a shell.
func untyped(r rune) bool {
	return r == unicode.ReplacementChar || unicode.IsSpace(r) || !unicode.IsPrint(r)
}

// completeCommand offers the programs of PATH behind --, and files behind a program.
func (inv *invocation) completeCommand(cmd *cobra.Command, words []string, typed string) (names []cobra.Completion, _ cobra.ShellCompDirective) {
	switch at := cmd.ArgsLenAtDash(); {
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
