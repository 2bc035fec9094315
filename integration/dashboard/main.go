// Command dashboard draws docs/telemetry/dashboard.json as Prometheus answers it: the picture in docs/telemetry.md.
//
// It runs the example of otelredlock, whose workers contend for locks while masters fail, has a Prometheus scrape it every second, asks that
// for every query of every panel, and draws what it got where gridPos says. It is the dashboard's test as well: a query that is refused, or
// yields nothing, is an error. It is no Grafana, and the picture no screenshot.
//
//	make dashboard
//
// prometheus has to be in PATH. All listens on the loopback interface, and is gone at the end.
//
// Exit status: 0, 1 when something went wrong or a query has no answer, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(run(context.Background(), os.Args[1:], os.Stderr)) }

func run(ctx context.Context, args []string, errs io.Writer) int {
	f := flag.NewFlagSet("dashboard", flag.ContinueOnError)
	f.SetOutput(errs)
	in := f.String("in", "docs/telemetry/dashboard.json", "the dashboard's `file`")
	out := f.String("out", "docs/telemetry-dashboard.svg", "the picture's `file`")
	long := f.Duration("for", 90*time.Second, "how long the workers work")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := show(ctx, *in, *out, *long); err != nil {
		_, _ = fmt.Fprintln(errs, "dashboard:", err)
		return 1
	}
	return 0
}

// show reads, measures, asks and draws.
func show(ctx context.Context, in, out string, long time.Duration) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	d, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	folder, err := os.MkdirTemp("", "dashboard")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	drawn, err := measure(ctx, folder, d, long)
	if err != nil {
		return err
	}
	return os.WriteFile(out, []byte(picture(d.Title, drawn)), 0o644)
}

// measure has the workload scraped to its end, and asks for all panels.
func measure(ctx context.Context, folder string, d *dashboard, long time.Duration) ([]drawing, error) {
	prometheus, err := findPrometheus()
	if err != nil {
		return nil, err
	}
	target, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	scraper, url, err := startPrometheus(ctx, prometheus, folder, target)
	if err != nil {
		return nil, err
	}
	defer scraper.stop()
	q := &querier{url: url}
	if err := q.awaitUp(ctx, 0); err != nil { // it scrapes, and finds nothing
		return nil, errors.Join(err, scraper.complaint())
	}
	load, err := startWorkload(ctx, folder, target, long)
	if err != nil {
		return nil, err
	}
	defer load.stop()
	if err := q.awaitUp(ctx, 1); err != nil {
		return nil, errors.Join(err, load.complaint())
	}
	q.from = time.Now()
	if err := load.wait(); err != nil {
		return nil, err
	}
	q.to = time.Now()
	return q.all(ctx, d)
}
