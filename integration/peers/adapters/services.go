package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

// services are this library with what a service has beside its locks.
var services = []Kind{
	{Name: Measured, Sends: plainCommands, Open: openMeasured},
	{Name: Holding, Note: fmt.Sprintf("%d of them, which extend themselves", heldLocks), Sends: plainCommands, Open: openHolding},
}

// openMeasured has the metrics of package otelredlock, which are read every second.
func openMeasured(ctx context.Context, servers []string, o Options) (Adapter, error) {
	reader := metric.NewPeriodicReader(discard{}, metric.WithInterval(time.Second))
	trace, err := otelredlock.New(otelredlock.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	if err != nil {
		return nil, err
	}
	return openOurs(nil, redlock.WithTrace(trace))(ctx, servers, o)
}

// The locks that a client holds beside its work. Each is extended after about a third of its TTL.
const (
	heldLocks = 10_000
	heldTTL   = 30 * time.Second
)

func openHolding(ctx context.Context, servers []string, o Options) (Adapter, error) {
	a, err := openOurs(nil)(ctx, servers, o)
	if err != nil {
		return nil, err
	}
	locker := a.(*own).locker
	acquires, acquiring := errgroup.WithContext(ctx)
	acquires.SetLimit(64)
	for i := range heldLocks {
		acquires.Go(func() error {
			_, err := locker.Acquire(acquiring, fmt.Sprintf("held/%d", i), heldTTL, redlock.WithAutoExtend())
			return err
		})
	}
	if err := acquires.Wait(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// discard is an exporter that drops what it is given.
type discard struct{}

func (discard) Temporality(kind metric.InstrumentKind) metricdata.Temporality {
	return metric.DefaultTemporalitySelector(kind)
}

func (discard) Aggregation(kind metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(kind)
}

func (discard) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }
func (discard) ForceFlush(context.Context) error                          { return nil }
func (discard) Shutdown(context.Context) error                            { return nil }
