package otelredlock_test

import (
	"log"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

// exponential makes all histograms of locks exponential: 160 buckets for each series, as narrow as
// the values allow.
var exponential = sdkmetric.NewView(
	sdkmetric.Instrument{Name: "redlock.*", Kind: sdkmetric.InstrumentKindHistogram},
	sdkmetric.Stream{Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: 160, MaxScale: 8, NoMinMax: true}},
)

// Exponential histograms need no bounds. A view sets them in the meter provider.
func ExampleNew_exponentialHistograms() {
	reader := sdkmetric.NewManualReader() // a program has an exporter here
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithView(exponential))
	trace, err := otelredlock.New(otelredlock.WithMeterProvider(meters))
	if err != nil {
		log.Fatal(err)
	}
	_ = redlock.WithTrace(trace) // for redlock.Open
	// Output:
}

func TestTheViewMakesAllHistogramsExponential(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		w.reader = sdkmetric.NewManualReader()
		w.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader), sdkmetric.WithView(exponential))
		k := take(t, w.locker(nil))
		require.NoError(t, k.Extend(t.Context(), ttl))
		require.NoError(t, k.Release(t.Context()))
		histograms := 0
		for _, m := range w.collect() {
			switch data := m.Data.(type) {
			case metricdata.ExponentialHistogram[float64]:
				histograms++
				for _, p := range data.DataPoints {
					require.LessOrEqual(t, p.Scale, int32(8), "more is too fine for Prometheus")
				}
			case metricdata.Sum[int64], metricdata.Gauge[int64]:
			default:
				t.Fatalf("%s is a %T", m.Name, data)
			}
		}
		require.Equal(t, 4, histograms)
	})
}

// The view in the document is the one that these tests use.
func TestTheDocumentShowsTheView(t *testing.T) {
	document, err := os.ReadFile("../../docs/telemetry.md")
	require.NoError(t, err)
	source, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, view, found := strings.Cut(string(source), "\nvar exponential = ")
	require.True(t, found)
	view, _, _ = strings.Cut(view, "\n)\n")
	require.Contains(t, string(document), "\nvar exponential = "+view+"\n)\n")
}
