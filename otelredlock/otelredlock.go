package otelredlock

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/redlock"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/quorumlock/go-redlock/otelredlock"

// Option changes what New makes. The zero set of options takes the global providers. A nil Option is skipped.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	attributes func(names []string) []attribute.KeyValue
	hideNames  bool
	clock      clock.Clock
}

// WithMeterProvider says where metrics go. Defaults to otel.GetMeterProvider() at the call of New.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(s *settings) { s.meters = p })
}

// WithTracerProvider says where spans go; one that drops them (trace/noop) leaves metrics alone. Defaults to otel.GetTracerProvider() at the
// call of New.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(s *settings) { s.tracers = p })
}

// WithAttributes adds attributes to the metrics and spans of locks, by their names: "invoice/42" may become kind=invoice. A metric's series
// are kept forever, so the values must be few. The names themselves are no attribute of metrics. It is called for every event, on one
// goroutine. With it the counter of losses has no series before the first loss, so a query for increases does not see the first
// loss. The default adds no attributes, and that counter begins at 0.
func WithAttributes(of func(names []string) []attribute.KeyValue) Option {
	return option(func(s *settings) { s.attributes = of })
}

// WithoutNames leaves the locks' names out of spans, for names that tell what not everybody may know. Defaults to names in spans.
func WithoutNames() Option { return option(func(s *settings) { s.hideNames = true }) }

// WithClock takes the time by which quarantines pass from another clock; for tests. Defaults to clock.System().
func WithClock(c clock.Clock) Option { return option(func(s *settings) { s.clock = c }) }

// New makes the hooks that record, for redlock.WithTrace, which may be given several times. Each Locker gets its own, because
// redlock.nodes.quarantined is what one Locker was told. It fails when the provider refuses an instrument.
func New(opts ...Option) (*redlock.Trace, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider(), clock: clock.System()}
	for _, o := range opts {
		if o != nil {
			o.apply(&s)
		}
	}
	m, err := newMetrics(s)
	if err != nil {
		return nil, err
	}
	t := &spans{tracer: s.tracers.Tracer(Scope), settings: s}
	return &redlock.Trace{
		Vote:          m.vote,
		Woken:         m.woken,
		Extended:      m.extended,
		Attempt:       func(e redlock.AttemptEvent) { m.attempt(e); t.attempt(e) },
		Acquired:      func(e redlock.AcquiredEvent) { m.acquired(e); t.acquired(e) },
		AcquireFailed: func(e redlock.AcquireFailedEvent) { m.gaveUp(e); t.gaveUp(e) },
		Ended:         func(e redlock.EndedEvent) { m.ended(e); t.ended(e) },
		Released:      func(e redlock.ReleasedEvent) { m.released(e); t.released(e) },
	}, nil
}

// of are a lock's own attributes.
func (s *settings) of(names []string, more ...attribute.KeyValue) []attribute.KeyValue {
	if s.attributes == nil {
		return more
	}
	return append(more, s.attributes(names)...)
}
