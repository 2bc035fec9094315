package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
)

// form is how a subcommand is called: the flags of its entry, and what they were given.
type form struct {
	*flag.FlagSet
	command command
	do      body
}

func newForm(cmd command) *form {
	f := &form{FlagSet: flag.NewFlagSet(cmd.name, flag.ContinueOnError), command: cmd}
	f.SetOutput(io.Discard) // misused says it, in one form for all mistakes
	f.do = cmd.flags(f)
	return f
}

// obey reads the words of a subcommand and does what they say.
func (c *call) obey(ctx context.Context, cmd command, args []string) int {
	c.command = cmd
	f := newForm(cmd)
	switch err := f.read(c, args); {
	case errors.Is(err, flag.ErrHelp):
		f.help(c.stdout)
		return exitOK
	case err != nil && cmd.noJSON != "" && strings.HasSuffix(err.Error(), "not defined: -json"):
		return c.misused("there is no --json: %s", cmd.noJSON)
	case err != nil:
		return c.misused("%v", twoDashes(err))
	}
	return f.do(ctx, c)
}

// read parses the words. Flags may stand before and after the others, which flag by
// itself does not allow: it stops at the first other word. What stands behind the
// first "--" is not looked at.
func (f *form) read(c *call, args []string) error {
	for i, a := range args {
		if a == "--" {
			args, c.behind, c.dashed = args[:i], args[i+1:], true
			break
		}
	}
	for {
		if err := f.Parse(args); err != nil || f.NArg() == 0 {
			return err
		}
		c.words, args = append(c.words, f.Arg(0)), f.Args()[1:]
	}
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
