package otelredlock

import (
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// metrics are the instruments. Their names and units are in docs/telemetry.md.
type metrics struct {
	settings
	quarantined *quarantines

	attempts, acquisitions, holds, validity, extensions, releases, answers metric.Float64Histogram
	losses, errors, wakeups                                                metric.Int64Counter
	held, waiting                                                          metric.Int64UpDownCounter
}

// Bounds of histograms, in seconds. A round trip takes some tenths of a millisecond at best, and a
// wait or a hold may take hours.
var (
	quick = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	slow  = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 14400}
	// nodes has few bounds, because this histogram has a series for each node, operation and outcome.
	// A node in the same data centre answers below the first ones. 0.1, 0.25 and 0.5 are the default
	// node timeouts for TTLs of 0.4 s, 1 s, and 2 s or more: what is above them came too late. Above 5
	// are the nodes that are silent until their connection is ended (pool.Config.HardTimeout).
	nodes = []float64{.001, .005, .025, .1, .25, .5, 1, 5}
)

func newMetrics(s settings) (*metrics, error) {
	m := &metrics{settings: s, quarantined: newQuarantines(s.clock)}
	meter := s.meters.Meter(Scope)
	var errs []error
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	level := func(name, unit, what string) metric.Int64UpDownCounter {
		c, err := meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	m.attempts = histogram("redlock.attempt.duration", "Time from the start of an attempt, which asks all nodes once, to its decision.", quick)
	m.acquisitions = histogram("redlock.acquire.duration", "Time from the call of Acquire to the lock, or to giving up.", slow)
	m.holds = histogram("redlock.hold.duration", "Time from the start of an acquisition to the end of the hold.", slow)
	m.validity = histogram("redlock.release.validity", "Validity that was left of a lock when it was released.", slow)
	m.extensions = histogram("redlock.extend.duration", "Time from the start of an extension to its decision.", quick)
	m.releases = histogram("redlock.release.duration", "Time that a release took.", quick)
	m.answers = histogram("redlock.node.duration", "Time from the start of a round to a node's answer, in time or late.", nodes)
	m.losses = counter("redlock.losses", "{lock}", "Locks that ended under their holder: lost, or held for their maximum time.")
	m.errors = counter("redlock.node.errors", "{error}", "Answers of nodes that were no vote.")
	m.wakeups = counter("redlock.wakeups", "{wakeup}", "Waiting acquisitions that went on to try again.")
	m.held = level("redlock.locks.held", "{lock}", "Locks that are held now.")
	m.waiting = level("redlock.waiters", "{acquisition}", "Acquisitions that wait now.")
	_, err := meter.Int64ObservableUpDownCounter("redlock.nodes.quarantined", metric.WithUnit("{node}"),
		metric.WithDescription("Nodes that do not vote because they may have forgotten locks, as far as was seen."),
		metric.WithInt64Callback(m.quarantined.observe))
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin starts the series of losses, of held locks and of waiters at 0. In a series that starts at 1
// Prometheus sees no increase. With the user's own attributes the series are not known yet, so none
// is started.
func (m *metrics) begin() {
	if m.attributes != nil {
		return
	}
	m.held.Add(background, 0)
	m.waiting.Add(background, 0)
	for _, end := range []string{"lost", "max_hold"} {
		m.losses.Add(background, 0, with([]attribute.KeyValue{endReasonKey.String(end)}))
	}
}

func with(list []attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(list...))
}

func (m *metrics) attempt(e redlock.RoundEvent) {
	m.attempts.Record(e.Context, e.Took.Seconds(), with(m.of(e.Names, outcomes(e.Err, "acquired")...)))
}

func (m *metrics) acquired(e redlock.WaitEvent) {
	m.acquisitions.Record(e.Context, e.Waited.Seconds(), with(m.of(e.Names, outcomes(e.Err, "acquired")...)))
}

// started counts the locks that are held. It does not count shares, because another handle has their
// lease.
func (m *metrics) started(e redlock.HoldEvent) {
	if !e.Shared {
		m.held.Add(e.Context, 1, with(m.of(e.Names)))
	}
}

// ended counts holds, without shares.
func (m *metrics) ended(e redlock.HoldEvent) {
	if e.Shared {
		return
	}
	m.held.Add(e.Context, -1, with(m.of(e.Names)))
	end := reason(e.Cause)
	m.holds.Record(e.Context, e.Held.Seconds(), with(m.of(e.Names, endReasonKey.String(end))))
	switch end {
	case "released":
		m.validity.Record(e.Context, e.Validity.Seconds(), with(m.of(e.Names)))
	case "lost", "max_hold":
		m.losses.Add(e.Context, 1, with(m.of(e.Names, endReasonKey.String(end))))
	}
}

func (m *metrics) extended(e redlock.RoundEvent) {
	m.extensions.Record(e.Context, e.Took.Seconds(), with(m.of(e.Names, append(outcomes(e.Err, "extended"), automaticKey.Bool(e.Auto))...)))
}

func (m *metrics) released(e redlock.RoundEvent) {
	m.releases.Record(e.Context, e.Took.Seconds(), with(m.of(e.Names, outcomes(e.Err, "released")...)))
}

// waiter counts the acquisitions that wait.
func (m *metrics) waiter(e redlock.WaitEvent) {
	change := int64(-1)
	if e.Waits {
		change = 1
	}
	m.waiting.Add(e.Context, change, with(m.of(e.Names)))
}

func (m *metrics) woken(e redlock.WaitEvent) {
	m.wakeups.Add(e.Context, 1, with(m.of(e.Names, wakeUpKey.String(e.Reason))))
}

// vote counts the answer of a node. A node that was skipped has no answer.
func (m *metrics) vote(e redlock.VoteEvent) {
	if errors.Is(e.Vote.Err, pool.ErrGivenUp) {
		return
	}
	of := server(e.Vote.Node)
	asked := append(slices.Clone(of), operationKey.String(e.Op))
	took := append(slices.Clone(asked), outcomeKey.String(e.Vote.Outcome.String()))
	m.answers.Record(background, e.Vote.Took.Seconds(), with(took))
	m.quarantined.saw(e)
	if word, some := code(e.Vote.Err); some {
		m.errors.Add(background, 1, with(append(asked, errorType(word))))
	}
}
