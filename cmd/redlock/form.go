package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// form is how a subcommand is called: its flags, and its help.
type form struct {
	*flag.FlagSet
	call *call
	text string // what stands under the flags in the help
}

func newForm(c *call, text string) *form {
	f := &form{FlagSet: flag.NewFlagSet(c.command.name, flag.ContinueOnError), call: c, text: text}
	f.SetOutput(io.Discard) // misused says it, in one form for all mistakes
	return f
}

// read parses the words. Flags may stand before and after the others, which flag by
// itself does not allow: it stops at the first other word. What stands behind the
// first "--" is not looked at; dashed says that there was one. When done is true
// the call is over with that status.
func (f *form) read() (words, behind []string, dashed bool, status int, done bool) {
	args := f.call.args
	for i, a := range args {
		if a == "--" {
			args, behind, dashed = args[:i], args[i+1:], true
			break
		}
	}
	for {
		err := f.Parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			f.help(f.call.stdout)
			return nil, nil, false, exitOK, true
		case err != nil:
			return nil, nil, false, f.call.misused("%v", twoDashes(err)), true
		case f.NArg() == 0:
			return words, behind, dashed, 0, false
		}
		words, args = append(words, f.Arg(0)), f.Args()[1:]
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

func (f *form) help(w io.Writer) {
	cmd := f.call.command
	_, _ = fmt.Fprintf(w, "redlock %s: %s.\n\nUsage: redlock %s %s\n\nFlags:\n", cmd.name, cmd.summary, cmd.name, cmd.synopsis)
	f.VisitAll(func(def *flag.Flag) {
		arg, usage := flag.UnquoteUsage(def)
		usage = strings.ReplaceAll(usage, "\n", "\n                      ")
		_, _ = fmt.Fprintf(w, "  %-19s %s\n", strings.TrimSpace("--"+def.Name+" "+arg), usage)
	})
	_, _ = fmt.Fprint(w, "\n", f.text)
}

// overview is what `redlock help` prints.
func overview(w io.Writer) {
	_, _ = fmt.Fprint(w, "redlock holds locks over several independent Redis masters, by quorum.\n\nUsage:\n")
	for _, cmd := range commands() {
		_, _ = fmt.Fprintf(w, "  redlock %-8s %s\n", cmd.name, cmd.summary)
	}
	_, _ = fmt.Fprint(w, overviewText)
}

const overviewText = `
"redlock help COMMAND" or "redlock COMMAND -h" says more, with an example.

The masters are given by --nodes or in REDLOCK_NODES: URLs with commas between
them, the same for everybody who uses the same locks. For example
  export REDLOCK_NODES=redis://a:6379,redis://b:6379,redis://c:6379
A comma in a password is written %2C. What stands on a command line can be read by
others on the machine: a URL with a password belongs into the variable.

A place to begin: redlock demo
`
