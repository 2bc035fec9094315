package otelredlock_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

// notifying is a provider that tells when callbacks are unregistered.
type notifying struct {
	api.MeterProvider
	unregistered chan struct{}
}

func (p notifying) Meter(name string, opts ...api.MeterOption) api.Meter {
	return notifyingMeter{p.MeterProvider.Meter(name, opts...), p.unregistered}
}

type notifyingMeter struct {
	api.Meter
	unregistered chan struct{}
}

func (m notifyingMeter) RegisterCallback(f api.Callback, of ...api.Observable) (api.Registration, error) {
	r, err := m.Meter.RegisterCallback(f, of...)
	return notifyingRegistration{r, m.unregistered}, err
}

type notifyingRegistration struct {
	api.Registration
	unregistered chan struct{}
}

func (r notifyingRegistration) Unregister() error {
	close(r.unregistered)
	return r.Registration.Unregister()
}

// A provider has no end, and calls the hooks' callbacks until they are unregistered.
func TestTheHooksDoNotKeepALockerAlive(t *testing.T) {
	reader := metric.NewManualReader()
	provider := notifying{metric.NewMeterProvider(metric.WithReader(reader)), make(chan struct{})}
	hooks, err := otelredlock.New(otelredlock.WithMeterProvider(provider))
	require.NoError(t, err)
	l, err := redlock.Open([]string{"redis://127.0.0.1:1"}, redlock.WithTrace(hooks))
	require.NoError(t, err)
	require.NoError(t, l.Close(t.Context()))
	alive := weak.Make(l)
	require.Eventually(t, func() bool {
		runtime.GC()
		return alive.Value() == nil
	}, time.Minute, time.Millisecond)
	select {
	case <-provider.unregistered:
	case <-time.After(time.Minute):
		t.Fatal("the callback of a Locker that is gone is still registered")
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	runtime.KeepAlive(hooks)
}
