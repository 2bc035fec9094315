package otelredlock_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	otelmetric "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
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

// Nor do the callbacks of Lockers that are gone become more and more.
func TestTheCallbackOfALockerEndsWithIt(t *testing.T) {
	ended := make(chan struct{})
	hooks, err := otelredlock.New(otelredlock.WithMeterProvider(provider{meter: meter{ended: ended}}))
	require.NoError(t, err)
	l, err := redlock.Open([]string{"redis://127.0.0.1:1"}, redlock.WithTrace(hooks))
	require.NoError(t, err)
	hasEnded := func() bool {
		runtime.GC()
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	require.NoError(t, l.Close(t.Context()))
	require.False(t, hasEnded())
	runtime.KeepAlive(l)
	require.Eventually(t, hasEnded, time.Minute, time.Millisecond)
	runtime.KeepAlive(hooks)
}

// provider is a provider of one meter.
type provider struct {
	noop.MeterProvider
	meter meter
}

func (p provider) Meter(string, ...otelmetric.MeterOption) otelmetric.Meter { return p.meter }

// meter closes ended when a callback is no longer registered.
type meter struct {
	noop.Meter
	ended chan struct{}
}

func (m meter) RegisterCallback(otelmetric.Callback, ...otelmetric.Observable) (otelmetric.Registration, error) {
	return registration{ended: m.ended}, nil
}

type registration struct {
	noop.Registration
	ended chan struct{}
}

func (r registration) Unregister() error {
	close(r.ended)
	return nil
}
