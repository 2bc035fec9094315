// Command suite runs the tests of all modules, and says what it does: what is missing at the start,
// each package and lane when it has ended, and at the end every test that failed, with its output
// and the command that repeats it. A failure does not stop the others.
//
// usage: suite [-C folder] [-only unit|servers] [-cover file] [-late seeds] [-slowest n] [-remember] [-- flags of go test]
//
// `make test` and its parts call it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
)

// settings are what the command line says.
type settings struct {
	only  string   // "unit", "servers", or all
	cover string   // the file of the coverage profile of the library's module
	seeds []string // late mode, once for each
	flags []string // of go test

	slowest  int  // how many of the slowest tests are listed at the end
	remember bool // how long the tests of the folder integration took
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	var s settings
	var seeds, folder string
	var lanes bool
	f := flag.NewFlagSet("suite", flag.ContinueOnError)
	f.StringVar(&folder, "C", ".", "the `folder` of the library's module")
	f.StringVar(&s.only, "only", "", "`unit` (without Docker) or servers")
	f.StringVar(&s.cover, "cover", "", "the `file` of the coverage profile")
	f.StringVar(&seeds, "late", "", "`seeds` of the late mode, separated by spaces")
	f.IntVar(&s.slowest, "slowest", 0, "list so `many` of the slowest tests at the end")
	f.BoolVar(&s.remember, "remember", false, "write how long the tests on real servers took to "+tookPath+", by which they are distributed")
	f.BoolVar(&lanes, "lanes", false, "run the tests on real servers and print what test2json prints: for suite itself")
	own, flags := split(args)
	if err := f.Parse(own); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%s is no flag; those of go test come behind --", f.Arg(0))
	}
	s.seeds, s.flags = strings.Fields(seeds), flags
	if s.only != "" && s.only != "unit" && s.only != "servers" {
		return fmt.Errorf("-only %s: unit or servers", s.only)
	}
	for _, seed := range s.seeds {
		if _, err := strconv.ParseUint(seed, 10, 64); err != nil {
			return fmt.Errorf("-late %s: a seed is a whole number", seed)
		}
	}
	if err := os.Chdir(folder); err != nil {
		return err
	}
	if lanes {
		return runLanes(ctx, s.flags, &lines{to: os.Stdout})
	}
	if len(s.seeds) > 0 {
		return runLate(ctx, s)
	}
	_, err := runAll(ctx, s)
	return err
}

// split separates the flags of this command from those of go test, which come behind "--".
func split(args []string) (own, flags []string) {
	for i, a := range args {
		if a == "--" {
			return args[:i], args[i+1:]
		}
	}
	return args, nil
}
