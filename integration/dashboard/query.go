package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// querier queries a Prometheus for a span of time.
type querier struct {
	url      string
	from, to time.Time
}

// series is one line of a panel.
type series struct {
	name   string
	points []point
}

type point struct {
	at    time.Duration // since the beginning
	value float64       // NaN after a division by zero
}

// drawing is a panel and its lines.
type drawing struct {
	panel
	lines []series
	span  time.Duration
}

// expand replaces Grafana's variables as Grafana does: the chosen jobs, and a rate interval of four scrapes.
func (q *querier) expand(expr string, jobs []string) string {
	return strings.NewReplacer("$job", strings.Join(jobs, "|"), "$__rate_interval", (4 * scrapeEvery).String()).Replace(expr)
}

// all queries all panels. Its error reports every query that fails, not only the first.
func (q *querier) all(ctx context.Context, d *dashboard) ([]drawing, error) {
	jobs, err := q.jobs(ctx, d)
	if err != nil {
		return nil, err
	}
	var all []drawing
	var errs []error
	for _, p := range d.Panels {
		drawn := drawing{panel: p, span: q.to.Sub(q.from)}
		for _, t := range p.Targets {
			lines, err := q.lines(ctx, q.expand(t.Expr, jobs), t.LegendFormat)
			if err != nil {
				errs = append(errs, fmt.Errorf("panel %q: %s: %w", p.Title, t.Expr, err))
			}
			drawn.lines = append(drawn.lines, lines...)
		}
		all = append(all, drawn)
	}
	return all, errors.Join(errs...)
}

// jobs returns the values of the dashboard's variable job.
func (q *querier) jobs(ctx context.Context, d *dashboard) (jobs []string, err error) {
	parts := labelValues.FindStringSubmatch(d.variable("job"))
	if parts == nil {
		return nil, errors.New("the variable job is not of the form label_values(series, label)")
	}
	if err := q.get(ctx, "label/"+parts[2]+"/values", url.Values{"match[]": {parts[1]}}, &jobs); err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		return nil, fmt.Errorf("the variable job has no value: %s", parts[0])
	}
	return jobs, nil
}

var labelValues = regexp.MustCompile(`^label_values\((\w+), *(\w+)\)$`)

var errNothing = errors.New("the query returned no data")

// lines runs a query and returns its lines, sorted by name.
func (q *querier) lines(ctx context.Context, expr, legend string) ([]series, error) {
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	var found struct {
		Result []struct {
			Metric map[string]string
			Values []sample
		}
	}
	err := q.get(ctx, "query_range", url.Values{
		"query": {expr}, "start": {seconds(q.from)}, "end": {seconds(q.to)}, "step": {seconds(time.Unix(0, 0).Add(scrapeEvery))},
	}, &found)
	if err != nil {
		return nil, err
	}
	var lines []series
	for _, r := range found.Result {
		s := series{name: label(legend, r.Metric)}
		for _, v := range r.Values {
			s.points = append(s.points, point{v.at.Sub(q.from), v.value})
		}
		if slices.ContainsFunc(s.points, func(p point) bool { return !math.IsNaN(p.value) }) {
			lines = append(lines, s)
		}
	}
	if lines == nil {
		return nil, errNothing
	}
	slices.SortFunc(lines, func(a, b series) int { return cmp.Compare(a.name, b.name) })
	return lines, nil
}

// label fills the labels of a series into a legend.
func label(legend string, of map[string]string) string {
	return placeholder.ReplaceAllStringFunc(legend, func(p string) string { return of[placeholder.FindStringSubmatch(p)[1]] })
}

var placeholder = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

// sample is a value in the JSON of Prometheus: a time, and a number in quotes.
type sample struct {
	at    time.Time
	value float64
}

func (s *sample) UnmarshalJSON(text []byte) error {
	var at float64
	var value string
	if err := json.Unmarshal(text, &[]any{&at, &value}); err != nil {
		return err
	}
	s.at = time.UnixMilli(int64(math.Round(at * 1000)))
	var err error
	s.value, err = strconv.ParseFloat(value, 64)
	return err
}

// get sends a request and decodes the data of the response.
func (q *querier) get(ctx context.Context, what string, of url.Values, data any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, q.url+"/api/v1/"+what+"?"+of.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	response := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &response); err != nil {
		return fmt.Errorf("status %s: %w", answer.Status, err)
	}
	if response.Status != "success" {
		return fmt.Errorf("query rejected: %s", response.Error)
	}
	return nil
}

// awaitUp waits until the metric up of the target is 1 (up) or 0 (down).
func (q *querier) awaitUp(ctx context.Context, is float64) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		var up struct{ Result []struct{ Value sample } }
		err := q.get(ctx, "query", url.Values{"query": {"up"}}, &up)
		if err == nil && len(up.Result) == 1 && up.Result[0].Value.value == is {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("target not scraped: %w", errors.Join(context.Cause(ctx), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
