package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// dashboard is what is read of the Grafana dashboard.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

var (
	series = regexp.MustCompile(`redlock_\w+\{`)
	label  = regexp.MustCompile(`by \(([^)]*)\)`)
	words  = regexp.MustCompile(`\w+`)
)

// Series that a run of peace need not have; package otelredlock's tests see them made.
var rare = map[string]bool{"redlock_wakeups_total{": true, "redlock_extend_duration_seconds_count{": true}

func TestTheDashboardQueriesExportedMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/telemetry/dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.Len(t, d.Panels, 12)
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"--for", "1s"}, &out, &errs), "%s", &errs)
	served := out.String()
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			names := series.FindAllString(target.Expr, -1)
			require.NotEmpty(t, names, "%s: %s", p.Title, target.Expr)
			for _, name := range names {
				if !rare[name] {
					require.Contains(t, served, "\n"+name[:len(name)-1], "%s: %s", p.Title, target.Expr)
				}
			}
			for _, by := range label.FindAllStringSubmatch(target.Expr, -1) {
				for _, l := range words.FindAllString(by[1], -1) {
					if l != "redlock_wakeup" || !rare[names[0]] {
						require.Contains(t, served, l+`="`, "%s: %s", p.Title, target.Expr)
					}
				}
			}
		}
	}
}
