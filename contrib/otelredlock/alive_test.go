package otelredlock_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

// A provider has no end, and calls the hooks' callbacks for as long as the process lives.
func TestTheHooksDoNotKeepALockerAlive(t *testing.T) {
	reader := metric.NewManualReader()
	hooks, err := otelredlock.New(otelredlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	require.NoError(t, err)
	l, err := redlock.Open([]string{"redis://127.0.0.1:1"}, redlock.WithTrace(hooks))
	require.NoError(t, err)
	require.NoError(t, l.Close(t.Context()))
	alive := weak.Make(l)
	require.Eventually(t, func() bool {
		runtime.GC()
		return alive.Value() == nil
	}, time.Minute, time.Millisecond)
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	runtime.KeepAlive(hooks)
}
