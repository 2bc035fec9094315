package otelredlock_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/redlocktest"
)

// watched is a quorum in a bubble, and what is recorded of its Lockers.
type watched struct {
	*redlocktest.Quorum
	t       *testing.T
	reader  *metric.ManualReader
	meters  *metric.MeterProvider
	tracers *trace.TracerProvider
	spans   *tracetest.SpanRecorder
}

func watch(t *testing.T, f func(t *testing.T, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{Quorum: redlocktest.New(t, 3), t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
		w.meters = metric.NewMeterProvider(metric.WithReader(w.reader))
		w.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(w.spans))
		f(t, w)
	})
}

// locker is a Locker that is recorded.
func (w *watched) locker(of []otelredlock.Option, opts ...redlock.Option) *redlock.Locker {
	w.t.Helper()
	hooks, err := otelredlock.New(append([]otelredlock.Option{
		otelredlock.WithMeterProvider(w.meters), otelredlock.WithTracerProvider(w.tracers),
	}, of...)...)
	require.NoError(w.t, err)
	return w.Locker(append(opts, redlock.WithTrace(hooks))...)
}

// figures are the points of all metrics, by "name{attributes}": a histogram's are "count/sum".
func (w *watched) figures() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, m := range w.collect() {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				found[m.Name+labels(p.Attributes)] = fmt.Sprintf("%d/%.3f", p.Count, p.Sum)
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				found[m.Name+labels(p.Attributes)] = strconv.FormatInt(p.Value, 10)
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				found[m.Name+labels(p.Attributes)] = strconv.FormatInt(p.Value, 10)
			}
		default:
			w.t.Fatalf("%s is a %T", m.Name, data)
		}
	}
	return found
}

// collect returns all metrics, with the events so far.
func (w *watched) collect() (list []metricdata.Metrics) {
	w.t.Helper()
	synctest.Wait() // hooks run on a goroutine of their own
	var all metricdata.ResourceMetrics
	require.NoError(w.t, w.reader.Collect(w.t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		list = append(list, scope.Metrics...)
	}
	return list
}

// kind returns what docs/telemetry.md calls the kind of a metric.
func kind(m metricdata.Metrics) string {
	sum, isSum := m.Data.(metricdata.Sum[int64])
	_, isGauge := m.Data.(metricdata.Gauge[int64])
	switch {
	case isSum && sum.IsMonotonic:
		return "counter"
	case isSum:
		return "up-down counter"
	case isGauge:
		return "gauge"
	}
	return "histogram"
}

// histogram returns the points of one histogram.
func (w *watched) histogram(name string) []metricdata.HistogramDataPoint[float64] {
	w.t.Helper()
	for _, m := range w.collect() {
		if m.Name == name {
			return m.Data.(metricdata.Histogram[float64]).DataPoints
		}
	}
	return nil
}

// of are those of one metric.
func (w *watched) of(name string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for k, v := range w.figures() {
		if rest, ok := strings.CutPrefix(k, name+"{"); ok {
			found["{"+rest] = v
		}
	}
	return found
}

func labels(set attribute.Set) string {
	var list []string
	for _, kv := range set.ToSlice() {
		list = append(list, string(kv.Key)+"="+kv.Value.String())
	}
	slices.Sort(list)
	return "{" + strings.Join(list, ",") + "}"
}

// ended are the spans of a name, in the order of their ends.
func (w *watched) ended(name string) (list []trace.ReadOnlySpan) {
	synctest.Wait()
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			list = append(list, s)
		}
	}
	return list
}
