package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// subcommand is a command of cobra, with what cobra has no field for. Help, completion, man pages and
// docs/command.md come from it.
type subcommand struct {
	*cobra.Command

	// flags defines the flags, and returns the function that runs after they were parsed.
	flags func(f *pflag.FlagSet) runFunc

	exitStatuses []exitStatus
	heldName     bool   // its word is a name that is held
	takesCommand bool   // a command of the user's follows --, and has standard output
	noJSON       string // why there is no --json; "" if there is
}

// runFunc executes a subcommand and returns its exit status.
type runFunc func(ctx context.Context, c *invocation) int

// exitStatus is an exit status, and the condition under which a subcommand returns it.
type exitStatus struct {
	status int
	when   string
}

// childStatus is the status of a command, which redlock passes on.
const childStatus = -1

// label returns the status as help prints it.
func (e exitStatus) label() string {
	switch e.status {
	case childStatus:
		return "n"
	case exitSignal:
		return "128+n"
	}
	return strconv.Itoa(e.status)
}

// Endings that several have in common.
var (
	endsWell       = exitStatus{exitOK, "success"}
	endsMisused    = exitStatus{exitUsage, "wrong usage"}
	endsForeign    = exitStatus{exitForeign, "the key of NAME holds a value that is not a lock"}
	endsNoQuorum   = exitStatus{exitUnavailable, "no quorum of nodes could be reached"}
	endsHeld       = exitStatus{exitHeld, "NAME is held elsewhere, or too many nodes are quarantined (--guard)"}
	endsUnguarded  = exitStatus{exitConfig, "the nodes are guarded for clients with another list or maxTTL, or --guard is missing, or the guard has not begun"}
	endsClaimLost  = exitStatus{exitLost, "the lock is lost: it has expired, or was released"}
	endsQuarantine = exitStatus{exitHeld, "too many nodes are quarantined (--guard)"}
	endsUnwritten  = exitStatus{exitSystem, "the output could not be written; what was asked for is done"}
	endsSignal     = exitStatus{exitSignal, "signal n ended it"}
)

// bind has cobra parse the words of a subcommand and run it for an invocation.
func (cmd *subcommand) bind(inv *invocation) {
	cmd.Long += "\nExit status:\n"
	for _, e := range cmd.exitStatuses {
		cmd.Long += fmt.Sprintf("  %-6s %s\n", e.label(), folded(e.when, columns-9, "\n         "))
	}
	f := cmd.Flags()
	run := cmd.flags(f)
	cmd.InitDefaultHelpFlag()
	nameValues(f)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		inv.command, inv.asJSON = cmd, inv.asJSON && cmd.noJSON == ""
		return cmd.explained(err)
	})
	cmd.Args = cobra.ArbitraryArgs // each checks its own
	cmd.RunE = func(_ *cobra.Command, words []string) error {
		inv.command, inv.args, inv.hasDashes = cmd, words, false
		if at := cmd.ArgsLenAtDash(); at >= 0 {
			inv.args, inv.afterDashes, inv.hasDashes = words[:at], words[at:], true
		}
		if err := emptyFlag(f); err != nil {
			return err
		}
		inv.asJSON, _ = f.GetBool("json") // an error: there is no --json
		inv.status = run(cmd.Context(), inv)
		return nil
	}
}

// explained returns an error of pflag with the flag that an unknown one resembles.
func (cmd *subcommand) explained(err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	name := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
	if name == "json" && cmd.noJSON != "" {
		return fmt.Errorf("there is no --json: %s", cmd.noJSON)
	}
	// Cobra knows what resembles a command.
	flags := &cobra.Command{SuggestionsMinimumDistance: suggestionDistance}
	cmd.Flags().VisitAll(func(def *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: "--" + def.Name, Run: func(*cobra.Command, []string) {}})
	})
	return fmt.Errorf("%w%s", err, didYouMean(flags.SuggestionsFor("--"+name)))
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
