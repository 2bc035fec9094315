// Command prometheus serves the metrics of a service that uses locks, as Prometheus reads them.
//
// Some workers contend for a few locks, on nodes in memory. For a while one of the nodes is down
// and then quarantined. In the end there is no quorum, so locks are lost. The OpenTelemetry
// exporter for Prometheus serves the metrics at /metrics, and docs/telemetry has a Grafana
// dashboard for them.
//
//	go run ./integration/prometheus                       prints the metrics of three seconds
//	go run ./integration/prometheus --listen 127.0.0.1:9464 --for 10m
//
// Exit status: 0, 1 when something went wrong, 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("prometheus", flag.ContinueOnError)
	f.SetOutput(errs)
	listen := f.String("listen", "", "serve the metrics at this `address` meanwhile")
	long := f.Duration("for", 3*time.Second, "how long the workers work")
	if err := f.Parse(args); err != nil || f.NArg() > 0 {
		return 2
	}
	if err := show(context.Background(), *listen, *long, out); err != nil {
		_, _ = fmt.Fprintln(errs, "prometheus:", err)
		return 1
	}
	return 0
}

// show is what a service does at its start: a registry, an exporter, a meter provider, the hooks.
func show(ctx context.Context, listen string, long time.Duration, out io.Writer) error {
	registry := prometheus.NewRegistry()
	export, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return err
	}
	meters := metric.NewMeterProvider(metric.WithReader(export))
	defer func() { _ = meters.Shutdown(ctx) }()
	hooks, err := otelredlock.New(otelredlock.WithMeterProvider(meters))
	if err != nil {
		return err
	}
	handler := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	stop, err := serve(listen, handler)
	if err != nil {
		return err
	}
	defer stop()
	scrape := func() error {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
		_, err := io.Copy(out, answer.Body)
		return err
	}
	return work(ctx, long, scrape, redlock.WithTrace(hooks))
}

// serve serves the metrics, if there is an address to do so.
func serve(address string, handler http.Handler) (stop func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", handler)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "prometheus:", err)
		}
	}()
	return func() {
		_ = server.Close()
		<-done
	}, nil
}
