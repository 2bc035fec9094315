package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/bench"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/breaking"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/claim"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/cli"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/demo"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/doctor"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/list"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/run"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/status"
	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
)

// newRoot returns the whole command, bound to an invocation, which has words or not.
func newRoot(inv *cli.Invocation, words bool) *cobra.Command {
	root := &cobra.Command{
		Use:   "redlock",
		Short: "hold locks over several independent Redis nodes, by quorum",
		Long:  cli.Overview,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked, _ := cmd.Flags().GetBool("version"); asked {
				printVersion(inv)
				return nil
			}
			if words { // flags, for another word would be a command
				return errors.New("a command is needed")
			}
			cmd.SetOut(inv.Stderr)
			inv.Status = cli.ExitUsage
			return cmd.Help()
		},
		SilenceErrors:              true,
		SilenceUsage:               true,
		FParseErrWhitelist:         cobra.FParseErrWhitelist{UnknownFlags: true},
		SuggestionsMinimumDistance: cli.SuggestionDistance,
	}
	root.SetOut(inv.Stdout)
	root.SetErr(inv.Stderr)
	root.SetHelpTemplate("{{if .HasParent}}{{.CommandPath}}: {{.Short}}.\n\n{{end}}" + root.HelpTemplate())
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", terminal.Columns)))
	root.CompletionOptions.DisableDefaultCmd = true
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	for _, cmd := range commands() {
		cmd.Bind(inv)
		bindCompletion(cmd, inv)
		root.AddCommand(cmd.Command)
	}
	root.InitDefaultHelpFlag()
	root.Flags().BoolP("version", "v", false, "version for redlock") // cobra's own knows no --json
	cli.NameValues(root.Flags())
	hideSwitches(root)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Short = "show how a command is used"
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

// hideSwitches has cobra know the flags without a value, also before the subcommand. It takes the word behind
// a flag that it does not know for the flag's value.
func hideSwitches(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		cmd.Flags().VisitAll(func(def *pflag.Flag) {
			if def.NoOptDefVal != "" && root.Flags().Lookup(def.Name) == nil {
				root.Flags().Bool(def.Name, false, "")
				_ = root.Flags().MarkHidden(def.Name) // an error: there is no such flag
			}
		})
	}
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
	return fmt.Errorf("there is no command %q%s", word, cli.DidYouMean(similar))
}

// commands are the subcommands.
func commands() []*cli.Subcommand {
	return []*cli.Subcommand{
		demo.Subcommand(), run.Subcommand(), claim.Acquire(), claim.Extend(), claim.Release(),
		status.Subcommand(), list.Subcommand(), breaking.Subcommand(), doctor.Subcommand(), bench.Subcommand(), completionEntry(), versionEntry(),
	}
}
