package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dashboard is what is read of the Grafana dashboard.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Query string }
	}
	Panels []struct {
		Title       string
		GridPos     struct{ X, Y, W, H int }
		FieldConfig struct {
			Defaults struct {
				Unit   string
				Min    *float64
				Custom struct{ ScaleDistribution struct{ Type string } }
			}
		}
		Links   []struct{ URL string }
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
var rare = []string{"redlock_wakeups_total", "redlock_wakeup", "redlock_extensions_total", "job", "instance", "le"}

// shown is a run of the example, for all tests that look at what it serves.
var shown struct {
	sync.Once
	served string
}

// example returns what the example serves after a second. On a machine that stopped in that second some
// of what happens in it may not have happened, so the example then runs again, for longer.
func example(t *testing.T) string {
	t.Helper()
	shown.Do(func() {
		for long := time.Second; ; long *= 2 {
			var out, errs bytes.Buffer
			require.Zero(t, run([]string{"--for", long.String()}, &out, &errs), "%s", &errs)
			require.Empty(t, errs.String())
			missing := func(series string) bool { return !strings.Contains(out.String(), series) }
			if long > 10*time.Second || !slices.ContainsFunc(happened, missing) {
				shown.served = out.String()
				return
			}
		}
	})
	require.NotEmpty(t, shown.served, "the example failed in another test")
	return shown.served
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

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../../docs/telemetry/dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	require.Len(t, d.Panels, 13)
	return d
}

func TestTheDashboardQueriesExportedMetrics(t *testing.T) {
	d, served := readDashboard(t), example(t)
	var queried []string
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			requireServed(t, served, p.Title, target.Expr)
			queried = append(queried, target.Expr)
			selectors := strings.Count(target.Expr, "{")
			require.NotZero(t, selectors, p.Title)
			require.Equal(t, selectors, strings.Count(target.Expr, `{job=~"$job",instance=~"$instance"`), "%s: %s", p.Title, target.Expr)
		}
	}
	require.Contains(t, strings.Join(queried, "\n"), "sum(redlock_locks_held{")
	require.Contains(t, strings.Join(queried, "\n"), "sum(redlock_waiters{")
	for _, v := range d.Templating.List {
		if v.Name != "datasource" {
			require.Contains(t, v.Query, ", "+v.Name+")")
			requireServed(t, served, v.Name, v.Query)
		}
	}
	require.Len(t, d.Templating.List, 3)
}

// Durations range from a tenth of a millisecond to hours. A logarithmic axis has no 0.
func TestTheDashboardShowsDurationsOnALogarithmicScale(t *testing.T) {
	durations := 0
	for _, p := range readDashboard(t).Panels {
		if f := p.FieldConfig.Defaults; f.Unit == "s" {
			durations++
			require.Equal(t, "log", f.Custom.ScaleDistribution.Type, p.Title)
			require.Nil(t, f.Min, p.Title)
		}
	}
	require.Equal(t, 4, durations)
}

func TestThePanelsOfTheDashboardLeadToTheRunbookAndDoNotOverlap(t *testing.T) {
	sections, taken, links := sections(t), map[[2]int]string{}, 0
	for _, p := range readDashboard(t).Panels {
		for _, l := range p.Links {
			links++
			section, found := strings.CutPrefix(l.URL, operations)
			require.True(t, found, p.Title)
			require.Contains(t, sections, section, p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], p.Title)
				require.Less(t, at[0], 24, p.Title)
				taken[at] = p.Title
			}
		}
	}
	require.GreaterOrEqual(t, links, 6)
}
