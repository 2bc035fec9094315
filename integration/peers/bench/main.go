//go:build unix

// Program bench measures this library beside others and writes the results into docs/benchmarks.md.
// The libraries take turns. Each runs in processes of its own, on redis-server processes that the
// program starts on this machine.
//
//	GOWORK=off go -C integration/peers run ./bench --quick        # all workloads, briefly: about three minutes
//	GOWORK=off go -C integration/peers run ./bench --only fault   # the workloads whose names begin with "fault"
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

// options are the options of the command line.
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
	flags.IntVar(&o.rounds, "rounds", 0, "how often each adapter is measured; 0: as often as the workload says")
	flags.BoolVar(&o.quick, "quick", false, "measure one round, for a third of the time")
	flags.BoolVar(&o.draw, "draw", false, "measure nothing: write the document from the data in --out")
	flags.BoolVar(&o.list, "list", false, "list the workloads and exit")
	flags.StringVar(&o.out, "out", "", "the `folder` with benchmarks.md, in which tables, plots and data are replaced; empty: print only")
	only := flags.String("only", "", "workloads whose `names` begin with one of these, with commas between them")
	kinds := flags.String("adapters", "", "adapters whose `names` contain one of these, with semicolons between them; not with --out")
	nodes := flags.String("nodes", "", "`host:port,…` of servers to use instead of starting some. They must be empty, and are emptied "+
		"after each measurement. Workloads with faults, and workloads that need more servers, are skipped")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
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

// choose returns the requested workloads without those that the given servers cannot run.
func (o options) choose(list []workload) (chosen []workload) {
	for _, w := range list {
		named := func(prefix string) bool { return strings.HasPrefix(w.name, prefix) }
		if len(o.only) > 0 && !slices.ContainsFunc(o.only, named) {
			continue
		}
		if len(o.nodes) > 0 && (w.changesServers() || w.servers > len(o.nodes)) {
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

// A measurer measures one adapter once. It is [measure], except in tests.
type measurer func(ctx context.Context, w workload, kind string, nodes []string) (load.Result, error)

// measureAll measures the workloads, prints a table for each, and writes the document if --out is given.
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
		if err := all.write(o.out); err != nil { // a later interruption does not lose it
			return err
		}
	}
	return all.write(o.out)
}

// compare measures all adapters in turns at one workload. An interruption is always an error,
// even if the last turn has ended before it: a table without some rows must not replace a whole
// one. Other errors after an interruption are its consequences, and are not reported.
func (o options) compare(ctx context.Context, w workload, measure measurer, progress *log.Logger) (table, error) {
	t := table{Title: w.title, Rounds: w.rounds, Seconds: w.load.For.Seconds()}
	measured := make(map[string][]row)
	samples := make(map[string][]sample)
	for round := range w.rounds {
		for _, turn := range w.turns() {
			samples[turn.row] = append(samples[turn.row], sample{})
			result, err := measure(ctx, turn.of, turn.kind, o.nodes)
			if ctx.Err() != nil {
				return table{}, fmt.Errorf("interrupted: the results of %q are discarded: %w", w.name, context.Cause(ctx))
			}
			if err != nil {
				progress.Printf("  round %d  %-45s has no result: %v", round+1, turn.row, err)
				continue
			}
			one := rowOf(turn.row, result)
			measured[turn.row] = append(measured[turn.row], one)
			samples[turn.row][round] = sample{
				Rate: one.Rate, Acquire: at(one.Acquire, 0.5), Acquire99: at(one.Acquire, 0.99), P50: at(one.Both, 0.5), P99: at(one.Both, 0.99),
				ClientCPU: one.ClientCPU,
			}
			progress.Printf("  round %d  %-45s %9.0f/s", round+1, turn.row, one.Rate)
		}
	}
	for _, turn := range w.turns() {
		if rows := measured[turn.row]; len(rows) > 0 {
			whole := median(rows)
			whole.Rounds = samples[turn.row]
			t.Rows = append(t.Rows, whole)
		} else {
			t.Rows = append(t.Rows, row{Kind: turn.row, Missing: true})
		}
	}
	return t, nil
}
