package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func committed(t *testing.T) *dashboard {
	t.Helper()
	text, err := os.ReadFile("../../docs/telemetry/dashboard.json")
	require.NoError(t, err)
	d, err := parse(text)
	require.NoError(t, err)
	return d
}

// answering returns a querier of a Prometheus that answers every query with the same body.
func answering(t *testing.T, status int, body string) *querier {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/label/job/values" {
			_, _ = io.WriteString(w, `{"status":"success","data":["billing"]}`)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	from := time.Unix(1000, 0)
	return &querier{url: s.URL, from: from, to: from.Add(90 * time.Second)}
}

const answer = `{"status":"success","data":{"resultType":"matrix","result":[
	{"metric":{"redlock_outcome":"held"},"values":[[1000,"NaN"],[1001.5,"3"],[1002.5,"4"],[1010,"1"]]},
	{"metric":{"redlock_outcome":"acquired"},"values":[[1000,"0.5"]]},
	{"metric":{"redlock_outcome":"lost"},"values":[[1000,"NaN"]]}]}}`

func TestEveryPanelIsDrawnFromItsQueries(t *testing.T) {
	d := committed(t)
	drawn, err := answering(t, http.StatusOK, answer).all(t.Context(), d)
	require.NoError(t, err)
	require.Len(t, drawn, len(d.Panels))
	require.Len(t, drawn[0].lines, 2, "the third line has no value")
	require.Equal(t, series{"acquired", []point{{0, .5}}}, drawn[0].lines[0])
	held := drawn[0].lines[1]
	require.True(t, math.IsNaN(held.points[0].value))
	require.Equal(t, []point{{1500 * time.Millisecond, 3}, {2500 * time.Millisecond, 4}, {10 * time.Second, 1}}, held.points[1:])

	text := picture(d.Title, drawn)
	decoder := xml.NewDecoder(bytes.NewBufferString(text))
	for err == nil {
		_, err = decoder.Token()
	}
	require.ErrorIs(t, err, io.EOF, "the picture is XML")
	for _, p := range d.Panels {
		require.Contains(t, text, ">"+p.Title+"</text>")
	}
	require.Contains(t, text, `viewBox="0 0 1200 994"`)
	require.Contains(t, text, "@media (prefers-color-scheme: dark)")
	require.NotContains(t, text, "NaN")
}

func TestAQueryWithoutAnAnswerIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, says string
	}{
		"nothing":   {http.StatusOK, `{"status":"success","data":{"result":[]}}`, "the query returned no data"},
		"no number": {http.StatusOK, `{"status":"success","data":{"result":[{"metric":{},"values":[[1,"NaN"]]}]}}`, "the query returned no data"},
		"refused":   {http.StatusBadRequest, `{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}`, "parse error"},
		"no answer": {http.StatusBadGateway, "<html>", "502 Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			d := committed(t)
			_, err := answering(t, c.status, c.body).all(t.Context(), d)
			require.ErrorContains(t, err, c.says)
			for _, p := range d.Panels {
				require.ErrorContains(t, err, `panel "`+p.Title+`"`)
			}
		})
	}
}

func TestWithoutPrometheusTheErrorSaysHowToInstallIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var errs bytes.Buffer
	out := filepath.Join(t.TempDir(), "picture.svg")
	require.Equal(t, 1, run(t.Context(), []string{"--in", "../../docs/telemetry/dashboard.json", "--out", out}, &errs))
	require.Contains(t, errs.String(), "prometheus is not in PATH")
	require.Contains(t, errs.String(), "apt-get install prometheus")
	_, err := os.Stat(out)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, 2, run(t.Context(), []string{"word"}, &errs))
}

func TestADashboardThatCannotBeDrawnIsRejected(t *testing.T) {
	for text, says := range map[string]string{
		`{}`:                           "no panels",
		`{"panels":[{"type":"stat"}]}`: "type stat",
		`[`:                            "unexpected end",
	} {
		_, err := parse([]byte(text))
		require.ErrorContains(t, err, says)
	}
	_, err := answering(t, http.StatusOK, answer).jobs(t.Context(), &dashboard{})
	require.ErrorContains(t, err, "variable job")
}

func TestAnAxisHasRoundSteps(t *testing.T) {
	for _, c := range []struct {
		unit    string
		largest float64
		top     string
		steps   int
	}{
		{"none", 0, "1", 5},
		{"none", 3, "3", 3},
		{"none", 5, "5", 5},
		{"ops", 103, "150 /s", 3},
		{"ops", 0.07, "0.08 /s", 4},
		{"s", 0.00042, "500 µs", 5},
		{"s", 0.35, "400 ms", 4},
		{"s", 2.5, "2.5 s", 5},
		{"s", math.NaN(), "1 s", 5},
		{"s", math.Inf(1), "1 s", 5},
	} {
		a := newAxis(c.unit, c.largest)
		require.Equal(t, c.top, a.label(a.steps), "%v", c)
		require.Equal(t, c.steps, a.steps, "%v", c)
		require.Equal(t, "0", a.label(0))
	}
	require.Equal(t, []time.Duration{0, 20 * time.Second, 40 * time.Second, time.Minute, 80 * time.Second}, times(90*time.Second))
	require.Equal(t, "1:20", clockOf(80*time.Second))
}

func TestALegendWrapsAndAMissingLabelIsEmpty(t *testing.T) {
	require.Equal(t, "n1 timeout ", label("{{redlock_node}} {{ error_type }} {{other}}", map[string]string{"redlock_node": "n1", "error_type": "timeout"}))
	d := drawing{lines: make([]series, 7)}
	for i := range d.lines {
		d.lines[i].name = "n1 no_connection"
	}
	require.Len(t, d.legend(400), 4)
}

func TestTheErrorOfAServerHasItsOutput(t *testing.T) {
	s, err := start(t.Context(), "/bin/sh", "-c", "echo no such thing >&2; exit 3")
	require.NoError(t, err)
	require.ErrorContains(t, s.wait(), "exit status 3: no such thing")
	s, err = start(t.Context(), "/bin/sh", "-c", "exec sleep 600")
	require.NoError(t, err)
	s.stop()
	require.Error(t, s.err)
	_, err = start(t.Context(), "/nowhere")
	require.True(t, errors.Is(err, os.ErrNotExist))
}
