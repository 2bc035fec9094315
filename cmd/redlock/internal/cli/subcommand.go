package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quorumlock/go-redlock/cmd/redlock/internal/terminal"
)

// Subcommand is a command of cobra, with what cobra has no field for. Help, completion, man pages and
// docs/command.md come from it.
type Subcommand struct {
	*cobra.Command

	// Define defines the flags, and returns the function that runs after they were parsed.
	Define func(f *pflag.FlagSet) RunFunc

	ExitStatuses []ExitStatus
	HeldName     bool   // its word is a name that is held
	TakesCommand bool   // a command of the user's follows --, and has standard output
	NoJSON       string // why there is no --json; "" if there is
}

// RunFunc executes a subcommand and returns its exit status.
type RunFunc func(ctx context.Context, c *Invocation) int

// ExitStatus is an exit status, and the condition under which a subcommand returns it.
type ExitStatus struct {
	Status int
	when   string
}

// Ends returns an exit status and the condition under which a subcommand returns it.
func Ends(status int, when string) ExitStatus { return ExitStatus{status, when} }

// ChildStatus is the status of a command, which redlock passes on.
const ChildStatus = -1

// label returns the status as help prints it.
func (e ExitStatus) label() string {
	switch e.Status {
	case ChildStatus:
		return "n"
	case ExitSignal:
		return "128+n"
	}
	return strconv.Itoa(e.Status)
}

// Endings that several have in common.
var (
	EndsWell       = ExitStatus{ExitOK, "success"}
	EndsMisused    = ExitStatus{ExitUsage, "wrong usage"}
	EndsForeign    = ExitStatus{ExitForeign, "the key of NAME holds a value that is not a lock"}
	EndsNoQuorum   = ExitStatus{ExitUnavailable, "no quorum of nodes could be reached"}
	EndsHeld       = ExitStatus{ExitHeld, "NAME is held elsewhere, or too many nodes are quarantined (--guard)"}
	EndsUnguarded  = ExitStatus{ExitConfig, "the nodes are guarded for clients with another list or maxTTL, or --guard is missing, or the guard has not begun"}
	EndsClaimLost  = ExitStatus{ExitLost, "the lock is lost: it has expired, or was released"}
	EndsQuarantine = ExitStatus{ExitHeld, "too many nodes are quarantined (--guard)"}
	EndsUnwritten  = ExitStatus{ExitSystem, "the output could not be written; what was asked for is done"}
	EndsSignal     = ExitStatus{ExitSignal, "signal n ended it"}
)

// Bind has cobra parse the words of a subcommand and run it for an invocation.
func (cmd *Subcommand) Bind(inv *Invocation) {
	cmd.Long += "\nExit status:\n"
	for _, e := range cmd.ExitStatuses {
		cmd.Long += fmt.Sprintf("  %-6s %s\n", e.label(), terminal.Folded(e.when, terminal.Columns-9, "\n         "))
	}
	f := cmd.Flags()
	run := cmd.Define(f)
	cmd.InitDefaultHelpFlag()
	NameValues(f)
	for _, name := range nodeFlagNames[1:] { // they name files
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault)) // an error: it has no such flag
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		inv.Command, inv.JSON = cmd, inv.JSON && cmd.NoJSON == ""
		return cmd.explained(err)
	})
	cmd.Args = cobra.ArbitraryArgs // each checks its own
	cmd.RunE = func(_ *cobra.Command, words []string) error {
		inv.Command, inv.Args, inv.HasDashes = cmd, words, false
		if at := cmd.ArgsLenAtDash(); at >= 0 {
			inv.Args, inv.AfterDashes, inv.HasDashes = words[:at], words[at:], true
		}
		if err := EmptyFlag(f); err != nil {
			return err
		}
		inv.JSON, _ = f.GetBool("json") // an error: there is no --json
		inv.Status = run(cmd.Context(), inv)
		return nil
	}
}

// explained returns an error of pflag with the flag that an unknown one resembles.
func (cmd *Subcommand) explained(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	if name == "json" && cmd.NoJSON != "" {
		return fmt.Errorf("there is no --json: %s", cmd.NoJSON)
	}
	// Cobra knows what resembles a command.
	flags := &cobra.Command{SuggestionsMinimumDistance: SuggestionDistance}
	cmd.Flags().VisitAll(func(def *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: "--" + def.Name, Run: func(*cobra.Command, []string) {}})
	})
	return fmt.Errorf("%w%s", err, DidYouMean(flags.SuggestionsFor("--"+name)))
}

// SuggestionDistance is by how many letters a wrong word may differ from the one that is suggested.
const SuggestionDistance = 2

// DidYouMean returns a hint at words, or an empty text if there are none.
func DidYouMean(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(words, " or ") + "?"
}
