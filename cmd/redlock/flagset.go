package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/env"
)

// flagSet holds the flags of a subcommand and its entry in the table.
type flagSet struct {
	*flag.FlagSet
	command subcommand
	run     runFunc
	letters map[string]string // by flag: its second name, of one letter
}

func newFlagSet(cmd subcommand) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet(cmd.name, flag.ContinueOnError), command: cmd, letters: make(map[string]string)}
	f.SetOutput(io.Discard) // misused reports all mistakes in one form
	f.run = cmd.flags(f)
	return f
}

// parseAndRun reads the words of a subcommand and does what they say.
func (inv *invocation) parseAndRun(ctx context.Context, cmd subcommand, args []string) int {
	inv.command = cmd
	f := newFlagSet(cmd)
	inv.asJSON = cmd.noJSON == "" && wantsJSON(args)
	switch err := f.read(inv, args); {
	case errors.Is(err, flag.ErrHelp):
		f.help(inv.stdout)
		return exitOK
	case err != nil && cmd.noJSON != "" && strings.HasSuffix(err.Error(), "not defined: -json"):
		return inv.misused("there is no --json: %s", cmd.noJSON)
	case err != nil:
		return inv.finish(inv.misused("%v", f.explained(err)))
	}
	inv.asJSON = f.isSet("json")
	return inv.finish(f.run(ctx, inv))
}

// wantsJSON reports whether --json seems to be among words that may be wrong.
func wantsJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json") || slices.Contains(args, "-json")
}

// isSet reports whether a switch was given.
func (f *flagSet) isSet(name string) bool {
	def := f.Lookup(name)
	return def != nil && def.Value.String() == "true"
}

// explained returns an error of package flag with two dashes, and with the flag that an unknown one
// resembles.
func (f *flagSet) explained(err error) string {
	text := twoDashes(err)
	if _, name, ok := strings.Cut(text, "not defined: --"); ok {
		text += didYouMean(name, "--", f.names())
	}
	return text
}

// letter gives a flag a second name of one letter.
func (f *flagSet) letter(letter, name string) {
	f.Var(f.Lookup(name).Value, letter, "")
	f.letters[name] = letter
}

// names returns the names of the flags.
func (f *flagSet) names() (names []string) {
	for _, o := range f.all() {
		names = append(names, o.name)
	}
	return names
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

// flagName is a flag of more than one letter in an error of package flag.
var flagName = regexp.MustCompile(`((?:flag|defined|argument): |for flag )(-\w[\w-])`)

// twoDashes writes the flags in an error with two dashes, as they are documented. Package flag
// accepts one or two and writes one.
func twoDashes(err error) string { return flagName.ReplaceAllString(err.Error(), "${1}-${2}") }

// DurationVar defines a flag as that of package flag does, with an error that names the units.
func (f *flagSet) DurationVar(p *time.Duration, name string, value time.Duration, usage string) {
	*p = value
	f.Var((*durationValue)(p), name, usage)
}

// Duration is DurationVar with a variable of its own.
func (f *flagSet) Duration(name string, value time.Duration, usage string) *time.Duration {
	p := new(time.Duration)
	f.DurationVar(p, name, value, usage)
	return p
}

// durationValue is the value of a flag that is a duration.
type durationValue time.Duration

func (d *durationValue) String() string { return time.Duration(*d).String() }

func (d *durationValue) Set(text string) error {
	v, err := env.ParseDuration(text)
	*d = durationValue(v)
	return err
}
