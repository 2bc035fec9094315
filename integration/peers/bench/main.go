//go:build unix

// Program bench measures this library beside others, each in processes of its own and in turns, on redis-server processes that it starts on
// this machine, and writes what it found into docs/benchmarks.md.
//
//	GOWORK=off go -C integration/peers run ./bench --quick        # a look at everything: about three minutes
//	GOWORK=off go -C integration/peers run ./bench --only fault   # those whose names begin so
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/load"
)

// options are what the command line says.
type options struct {
	rounds int
	quick  bool
	only   []string
	kinds  []string
	out    string
	nodes  []string
	list   bool
	draw   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if slices.Equal(args, []string{workerFlag}) {
		return work(ctx, os.Stdin, os.Stdout)
	}
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	chosen := o.choose(workloads())
	if len(chosen) == 0 {
		return o.nothingLeft()
	}
	if o.list {
		for _, w := range chosen {
			fmt.Printf("%-36s %s\n", w.name, w.title)
		}
		return nil
	}
	if o.draw {
		chosen = nil
	}
	if err := mayEmpty(ctx, o.nodes); err != nil {
		return err
	}
	return o.measureAll(ctx, chosen, measure)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 0, "how often each contestant has its turn; 0: as often as the workload says")
	flags.BoolVar(&o.quick, "quick", false, "one round of a third of the time")
	flags.BoolVar(&o.draw, "draw", false, "measure nothing: write the document of the figures that are in --out")
	flags.BoolVar(&o.list, "list", false, "list the workloads and end")
	flags.StringVar(&o.out, "out", "", "the `folder` with benchmarks.md in which tables, plots and figures are replaced; empty: print only")
	only := flags.String("only", "", "workloads whose `names` begin so, with commas between")
	kinds := flags.String("contestants", "", "contestants whose `names` contain one of these, with semicolons between. Their rows alone are no table for --out")
	nodes := flags.String("nodes", "", "`host:port,…` of servers to use in place of those it starts. They must be empty, and are emptied "+
		"after each measurement. Workloads with faults, and those that need more servers, are left out")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("what is %q?", flags.Arg(0))
	}
	o.only, o.kinds, o.nodes = words(*only, ","), words(*kinds, ";"), words(*nodes, ",")
	return o, o.check()
}

func words(list, separator string) (found []string) {
	for word := range strings.SplitSeq(list, separator) {
		if word = strings.TrimSpace(word); word != "" {
			found = append(found, word)
		}
	}
	return found
}

// choose leaves out what was not asked for, and what given servers can't do.
func (o options) choose(list []workload) (chosen []workload) {
	for _, w := range list {
		named := func(prefix string) bool { return strings.HasPrefix(w.name, prefix) }
		if len(o.only) > 0 && !slices.ContainsFunc(o.only, named) {
			continue
		}
		if len(o.nodes) > 0 && (w.fault != healthy || w.servers > len(o.nodes)) {
			continue
		}
		if w.rounds = max(1, w.rounds); o.rounds > 0 {
			w.rounds = o.rounds
		}
		if o.quick {
			w.rounds, w.load.For = 1, w.load.For/3
		}
		if len(o.kinds) > 0 {
			other := func(kind string) bool {
				return !slices.ContainsFunc(o.kinds, func(part string) bool { return strings.Contains(kind, part) })
			}
			w.kinds = slices.DeleteFunc(slices.Clone(w.kinds), other)
			w.baselines = slices.DeleteFunc(slices.Clone(w.baselines), func(a baseline) bool { return other(a.kind) })
		}
		if len(w.kinds)+len(w.baselines) == 0 {
			continue
		}
		chosen = append(chosen, w)
	}
	return chosen
}

// A measurer measures one contestant once. It is [measure], but for tests.
type measurer func(ctx context.Context, w workload, kind string, nodes []string) (load.Result, error)

// measureAll measures, prints a table for each workload, and writes the document if there is a place for it.
func (o options) measureAll(ctx context.Context, chosen []workload, measure measurer) error {
	all, err := openResults(o.out)
	if err != nil {
		return err
	}
	progress := log.New(os.Stderr, "", 0)
	here := thisMachine(len(o.nodes) > 0)
	began := time.Now()
	for i, w := range chosen {
		fmt.Printf("\n%s  (%d of %d, after %.0f s)\n", w.title, i+1, len(chosen), time.Since(began).Seconds())
		t, err := o.compare(ctx, w, measure, progress)
		if err != nil {
			return err
		}
		t.Machine = here
		all.Tables[w.name] = t
		fmt.Print(plainTable(w, t))
		if err := all.write(o.out); err != nil { // what was measured stays when the rest is broken off
			return err
		}
	}
	return all.write(o.out)
}

// compare gives all contestants their turns at one workload. An interruption is always an error, also where the last turn had an answer
// before it: a table that lacks rows must not take the place of a whole one. What else is wrong then is its consequence.
func (o options) compare(ctx context.Context, w workload, measure measurer, progress *log.Logger) (table, error) {
	t := table{Title: w.title, Rounds: w.rounds, Seconds: w.load.For.Seconds()}
	measured := make(map[string][]row)
	for round := range w.rounds {
		for _, turn := range w.turns() {
			result, err := measure(ctx, turn.of, turn.kind, o.nodes)
			if ctx.Err() != nil {
				return table{}, fmt.Errorf("interrupted, and nothing of %q is kept: %w", w.name, context.Cause(ctx))
			}
			if err != nil {
				progress.Printf("  round %d  %-45s did not end: %v", round+1, turn.row, err)
				continue
			}
			one := rowOf(turn.row, result)
			measured[turn.row] = append(measured[turn.row], one)
			progress.Printf("  round %d  %-45s %9.0f/s", round+1, turn.row, one.Rate)
		}
	}
	for _, turn := range w.turns() {
		if rows := measured[turn.row]; len(rows) > 0 {
			t.Rows = append(t.Rows, median(rows))
		} else {
			t.Rows = append(t.Rows, row{Kind: turn.row, Missing: true})
		}
	}
	return t, nil
}
