package otelredlock

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/go-redlock/redlock"
)

// Scope is the name of the instrumentation scope.
const Scope = "github.com/quorumlock/go-redlock/contrib/otelredlock"

// Option changes what New makes. Without options New uses the global providers. New skips nil
// options.
type Option interface{ apply(*settings) }

type option func(*settings)

func (o option) apply(s *settings) { o(s) }

type settings struct {
	meters     metric.MeterProvider
	tracers    trace.TracerProvider
	attributes func(names []string) []attribute.KeyValue
	hideNames  bool
}

// WithMeterProvider sets the provider of the metrics. The default is otel.GetMeterProvider() at the
// call of New.
func WithMeterProvider(p metric.MeterProvider) Option {
	return option(func(s *settings) { s.meters = p })
}

// WithTracerProvider sets the provider of the spans. With trace/noop there are only metrics. The
// default is otel.GetTracerProvider() at the call of New.
func WithTracerProvider(p trace.TracerProvider) Option {
	return option(func(s *settings) { s.tracers = p })
}

// WithAttributes adds attributes to the metrics and spans of locks, by their names: "invoice/42" may
// become kind=invoice. Series of a metric are kept forever, so there must be few values. The names
// themselves are not an attribute of metrics. The function is called for every event, on one goroutine
// for each Locker: calls are concurrent if several Lockers have these hooks. redlock.locks.held and
// redlock.waiters do not have these attributes.
//
// With this option the counter of losses has no series before the first loss, so a query for
// increases does not see the first loss. By default there are no such attributes, and the counter
// starts at 0.
func WithAttributes(of func(names []string) []attribute.KeyValue) Option {
	return option(func(s *settings) { s.attributes = of })
}

// WithoutNames omits the locks' names from spans, for names that are confidential. By default spans
// have them.
func WithoutNames() Option { return option(func(s *settings) { s.hideNames = true }) }

// New makes the hooks for redlock.WithTrace, which may be given several times. Several Lockers may have
// the same hooks. Their metrics are added up, except redlock.node.voting and redlock.nodes.quarantined,
// which say what one of them sees. New returns an error if the provider refuses an instrument.
//
// Numbers of held locks, of waiters and of nodes are read from redlock.Locker.Stats when the provider
// collects them. The hooks do not keep a Locker alive.
func New(opts ...Option) (*redlock.Trace, error) {
	s := settings{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
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
		Opened:   m.opened,
		Vote:     m.vote,
		Woken:    m.woken,
		Extended: m.extended,
		Attempt:  func(e redlock.RoundEvent) { e.Err = canceled(e.Context, e.Err); m.attempt(e); t.attempt(e) },
		Acquired: func(e redlock.WaitEvent) { e.Err = canceled(e.Context, e.Err); m.acquired(e); t.acquired(e) },
		Ended:    func(e redlock.HoldEvent) { m.ended(e); t.ended(e) },
		Released: func(e redlock.RoundEvent) { m.released(e); t.released(e) },
	}, nil
}

// of returns the attributes of a lock.
func (s *settings) of(names []string, more ...attribute.KeyValue) []attribute.KeyValue {
	if s.attributes == nil {
		return more
	}
	return append(more, s.attributes(names)...)
}
