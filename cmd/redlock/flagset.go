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

// flagSet is how a subcommand is called: the flags of its entry, and what they were given.
type flagSet struct {
	*flag.FlagSet
	command subcommand
	run     runFunc
}

func newFlagSet(cmd subcommand) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet(cmd.name, flag.ContinueOnError), command: cmd}
	f.SetOutput(io.Discard) // misused says it, in one form for all mistakes
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

// read parses the words. Flags may stand before and after the others, which flag by
// itself does not allow: it stops at the first other word. What stands behind the
// first "--" is not looked at.
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

// emptyFlag is an error if one of the flags that name nodes or files was given as empty. A script with an empty variable
// would use what the environment has instead.
func (f *flagSet) emptyFlag() (err error) {
	f.Visit(func(fl *flag.Flag) {
		if slices.Contains([]string{"nodes", "nodes-file", "cacert", "cert", "key"}, fl.Name) && fl.Value.String() == "" {
			err = fmt.Errorf("--%s is given and empty", fl.Name)
		}
	})
	return err
}

// twoDashes shows flags as they are documented: package flag takes one or two
// dashes and writes one.
func twoDashes(err error) string {
	text := err.Error()
	for _, before := range []string{"flag: ", "defined: ", "for flag ", "argument: "} {
		text = strings.Replace(text, before+"-", before+"--", 1)
	}
	return text
}
