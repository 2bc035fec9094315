package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// flagSet holds the flags of a subcommand and its entry in the table.
type flagSet struct {
	*flag.FlagSet
	command subcommand
	run     runFunc
}

func newFlagSet(cmd subcommand) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet(cmd.name, flag.ContinueOnError), command: cmd}
	f.SetOutput(io.Discard) // misused reports all mistakes in one form
	f.run = cmd.flags(f)
	return f
}

// parseAndRun reads the words of a subcommand and does what they say.
func (inv *invocation) parseAndRun(ctx context.Context, cmd subcommand, args []string) int {
	inv.command = cmd
	f := newFlagSet(cmd)
	switch err := f.read(inv, args); {
	case errors.Is(err, flag.ErrHelp):
		f.help(inv.stdout)
		return exitOK
	case err != nil && cmd.noJSON != "" && strings.HasSuffix(err.Error(), "not defined: -json"):
		return inv.misused("there is no --json: %s", cmd.noJSON)
	case err != nil:
		return inv.misused("%v", twoDashes(err))
	}
	return f.run(ctx, inv)
}

// read parses the words. Flags may come before and after other words. Package flag alone stops at
// the first other word. Words after the first "--" are not parsed.
func (f *flagSet) read(c *invocation, args []string) error {
	for i, a := range args {
		if a == "--" {
			args, c.afterDashes, c.hasDashes = args[:i], args[i+1:], true
			break
		}
	}
	for {
		if err := f.Parse(args); err != nil || f.NArg() == 0 {
			return cmp.Or(err, f.emptyFlag())
		}
		c.args, args = append(c.args, f.Arg(0)), f.Args()[1:]
	}
}

// emptyFlag returns an error if a flag that names nodes or files was given an empty value. A script
// with an empty variable would otherwise use the value of the environment.
func (f *flagSet) emptyFlag() (err error) {
	f.Visit(func(fl *flag.Flag) {
		if slices.Contains([]string{"nodes", "nodes-file", "cacert", "cert", "key"}, fl.Name) && fl.Value.String() == "" {
			err = fmt.Errorf("--%s is given and empty", fl.Name)
		}
	})
	return err
}

// twoDashes writes the flags in an error with two dashes, as they are documented. Package flag
// accepts one or two and writes one.
func twoDashes(err error) string {
	text := err.Error()
	for _, before := range []string{"flag: ", "defined: ", "for flag ", "argument: "} {
		text = strings.Replace(text, before+"-", before+"--", 1)
	}
	return text
}
