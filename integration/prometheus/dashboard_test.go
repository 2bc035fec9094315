package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
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
	series = regexp.MustCompile(`redlock_\w+`)
	label  = regexp.MustCompile(`\b(?:by|on) \(([^)]*)\)`)
	match  = regexp.MustCompile(`(\w+)=~?"([^"$]*)"`)
	words  = regexp.MustCompile(`\w+`)
)

// Series and labels that a run of peace need not have; package otelredlock's tests see them made. A
// scrape adds the labels job and instance.
var rare = []string{"redlock_wakeups_total", "redlock_wakeup", "redlock_extend_duration_seconds_count", "redlock_extend_duration_seconds_bucket", "job", "instance", "le"}

// example returns what a second of the example serves.
func example(t *testing.T) string {
	t.Helper()
	var out, errs bytes.Buffer
	require.Zero(t, run([]string{"--for", "1s"}, &out, &errs), "%s", &errs)
	return out.String()
}

// requireServed checks that the series of a query and its labels are served, and that
// docs/telemetry.md lists the values of the labels.
func requireServed(t *testing.T, served, title, query string) {
	t.Helper()
	document, err := os.ReadFile("../../docs/telemetry.md")
	require.NoError(t, err)
	var labels []string
	for _, by := range label.FindAllStringSubmatch(query, -1) {
		labels = append(labels, words.FindAllString(by[1], -1)...)
	}
	for _, m := range match.FindAllStringSubmatch(query, -1) {
		labels = append(labels, m[1])
		for _, value := range words.FindAllString(m[2], -1) {
			require.Contains(t, string(document), "`"+value+"`", "%s: %s", title, query)
		}
	}
	for _, l := range labels {
		require.True(t, slices.Contains(rare, l) || strings.Contains(served, l+`="`), "%s: no label %s: %s", title, l, query)
	}
	found := false
	for _, name := range series.FindAllString(query, -1) {
		if slices.Contains(labels, name) {
			continue
		}
		found = true
		require.True(t, slices.Contains(rare, name) || strings.Contains(served, "\n"+name+"{") || strings.Contains(served, "\n"+name+" "),
			"%s: no series %s: %s", title, name, query)
	}
	require.True(t, found, "%s: %s", title, query)
}

func TestTheDashboardQueriesExportedMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/telemetry/dashboard.json")
	require.NoError(t, err)
	var d dashboard
	require.NoError(t, json.Unmarshal(text, &d))
	require.Len(t, d.Panels, 12)
	served := example(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			requireServed(t, served, p.Title, target.Expr)
		}
	}
}
