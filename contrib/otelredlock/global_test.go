package otelredlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

// The first provider that a process sets gets what was made before. So there is one for all repetitions of the test, and
// no bubble.
var (
	globalReader = metric.NewManualReader()
	global       = metric.NewMeterProvider(metric.WithReader(globalReader))
)

func TestLossesBeginAtZeroIfTheGlobalProviderIsSetLate(t *testing.T) {
	hooks, err := otelredlock.New()
	require.NoError(t, err)
	opened := make(chan struct{})
	after := &redlock.Trace{Opened: func(*redlock.Locker) { close(opened) }}
	l, err := redlock.Open([]string{"redis://127.0.0.1:1"}, redlock.WithTrace(hooks), redlock.WithTrace(after))
	require.NoError(t, err)
	<-opened
	otel.SetMeterProvider(global)
	var all metricdata.ResourceMetrics
	require.NoError(t, globalReader.Collect(t.Context(), &all))
	require.NoError(t, l.Close(t.Context()))
	found := 0
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != "redlock.losses" {
				continue
			}
			for _, p := range m.Data.(metricdata.Sum[int64]).DataPoints {
				require.Zero(t, p.Value)
				found++
			}
		}
	}
	require.Equal(t, 7, found, "reasons")
}
