// Command dashboard draws docs/telemetry/dashboard.json with data from Prometheus. The picture is
// shown in docs/telemetry.md.
//
// The command runs the example of otelredlock, whose workers contend for locks while servers fail.
// A Prometheus scrapes the example every second. The command runs every query of every panel
// against that Prometheus, and draws each panel where its gridPos says. It also tests the
// dashboard: a query that is rejected or returns nothing is an error. It is not Grafana, and the
// picture is not a screenshot.
//
//	make dashboard
//
// prometheus must be in PATH. All processes listen on the loopback interface and end with the command.
//
// Exit status: 0 on success, 1 if a step fails or a query returns nothing, 2 for wrong usage.
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
	long := f.Duration("for", 90*time.Second, "how long the workers run")
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

// show reads the dashboard, runs the workload and draws the panels.
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

// measure has Prometheus scrape the workload until its end, and then queries all panels.
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
	if err := q.awaitUp(ctx, 0); err != nil { // Prometheus scrapes, and the target is not up yet
		return nil, errors.Join(err, scraper.failure())
	}
	load, err := startWorkload(ctx, folder, target, long)
	if err != nil {
		return nil, err
	}
	defer load.stop()
	if err := q.awaitUp(ctx, 1); err != nil {
		return nil, errors.Join(err, load.failure())
	}
	q.from = time.Now()
	if err := load.wait(); err != nil {
		return nil, err
	}
	q.to = time.Now()
	return q.all(ctx, d)
}
