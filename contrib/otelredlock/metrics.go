package otelredlock

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"weak"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/quorumlock/go-redlock/pool"
	"github.com/quorumlock/go-redlock/redlock"
)

// background is the context of events without a caller.
var background = context.Background()

// metrics are the instruments. Their names and units are in docs/telemetry.md.
//
// A histogram has a series for each bound and each set of attributes. So few histograms have an outcome
// as an attribute, and what is only worth a number is a counter.
type metrics struct {
	settings
	meter metric.Meter
	again sync.Once // begin, at the first collection

	acquisitions, holds, validity, answers                  metric.Float64Histogram
	attempts, extensions, releases, losses, errors, wakeups metric.Int64Counter
	held, waiting                                           metric.Int64ObservableUpDownCounter
	voting, quarantined                                     metric.Int64ObservableGauge
}

// Bounds of histograms, in seconds.
var (
	// durations is for acquisitions and holds. A round trip takes a millisecond or less, and a hold may
	// take hours.
	durations = []float64{.001, .01, .1, 1, 10, 60, 600, 3600}
	// validities shows what is left of a TTL, which is often 10 to 30 s.
	validities = []float64{.05, .25, 1, 5, 15, 60}
	// nodes is for a node's answers. 0.1 and 0.5 are the default node timeouts for TTLs of 0.4 s, and of
	// 2 s or more: what is above came too late.
	nodes = []float64{.001, .005, .025, .1, .5, 2.5}
)

func newMetrics(s settings) (*metrics, error) {
	m := &metrics{settings: s, meter: s.meters.Meter(Scope)}
	var errs []error
	histogram := func(name, what string, bounds []float64) metric.Float64Histogram {
		h, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	level := func(name, unit, what string) metric.Int64ObservableUpDownCounter {
		c, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	gauge := func(name, unit, what string) metric.Int64ObservableGauge {
		g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return g
	}
	m.attempts = counter("redlock.attempts", "{attempt}", "Attempts, each of which asks all nodes once.")
	m.acquisitions = histogram("redlock.acquire.duration", "Time from the call of an Acquire method to the lock, or to giving up.", durations)
	m.holds = histogram("redlock.hold.duration", "Time from the start of an acquisition to the end of the hold.", durations)
	m.validity = histogram("redlock.release.validity", "Validity that was left of a lock when it was released.", validities)
	m.extensions = counter("redlock.extensions", "{extension}", "Extensions that were decided.")
	m.releases = counter("redlock.releases", "{release}", "Releases whose outcome is known.")
	m.losses = counter("redlock.losses", "{lock}", "Locks that ended under their holder: lost, or held for their maximum time.")
	m.wakeups = counter("redlock.wakeups", "{wakeup}", "Waiting acquisitions that went on to try again.")
	m.answers = histogram("redlock.node.duration", "Time from the start of a round to a node's vote, in time or late.", nodes)
	m.errors = counter("redlock.node.errors", "{error}", "Answers of nodes that were no vote.")
	m.held = level("redlock.locks.held", "{lock}", "Locks that are held now.")
	m.waiting = level("redlock.waiters", "{acquisition}", "Acquisitions that wait now.")
	m.voting = gauge("redlock.node.voting", "{node}", "1 for a node that votes, and 0 for one that does not.")
	m.quarantined = gauge("redlock.nodes.quarantined", "{node}", "Nodes that do not vote because they may have forgotten locks.")
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	m.begin()
	return m, nil
}

// begin starts the series of losses at 0. In a series that starts at 1 Prometheus sees no increase. With
// the user's own attributes the series are not known yet, so none is started. A global provider that is
// set after New loses what was counted before, so it begins again at the first collection.
func (m *metrics) begin() {
	if m.attributes != nil {
		return
	}
	for _, why := range lossReasons {
		m.losses.Add(background, 0, with([]attribute.KeyValue{lossKey.String(string(why))}))
	}
}

// opened has the state of a Locker read at each collection, for as long as the program uses the Locker.
func (m *metrics) opened(l *redlock.Locker) {
	of := weak.Make(l)
	registration, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m.again.Do(m.begin)
		if l := of.Value(); l != nil {
			m.observe(o, l.Stats())
		}
		return nil
	}, m.held, m.waiting, m.voting, m.quarantined)
	if err != nil {
		otel.Handle(err)
		return
	}
	runtime.AddCleanup(l, func(r metric.Registration) { _ = r.Unregister() }, registration)
}

func (m *metrics) observe(o metric.Observer, s redlock.Stats) {
	o.ObserveInt64(m.held, int64(s.Held))
	o.ObserveInt64(m.waiting, int64(s.Waiting))
	if len(s.Nodes) == 0 {
		return // it is closed
	}
	quarantined := int64(0)
	for _, n := range s.Nodes {
		votes := int64(1)
		if n.Err != nil {
			votes = 0
		}
		var why *redlock.QuarantineError
		if errors.As(n.Err, &why) {
			quarantined++
		}
		o.ObserveInt64(m.voting, votes, with(server(n.Node)))
	}
	o.ObserveInt64(m.quarantined, quarantined)
}

func with(list []attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(list...))
}

func (m *metrics) attempt(e redlock.RoundEvent) {
	m.attempts.Add(e.Context, 1, with(m.of(e.Names, outcomes(e.Err, "acquired")...)))
}

func (m *metrics) acquired(e redlock.WaitEvent) {
	m.acquisitions.Record(e.Context, e.Waited.Seconds(), with(m.of(e.Names, outcomes(e.Err, "acquired")...)))
}

// ended counts holds. It does not count shares, because another handle has their lease.
func (m *metrics) ended(e redlock.HoldEvent) {
	if e.Shared {
		return
	}
	end := reason(e.Cause)
	m.holds.Record(e.Context, e.Held.Seconds(), with(m.of(e.Names, endReasonKey.String(end))))
	switch end {
	case "released":
		m.validity.Record(e.Context, e.Validity.Seconds(), with(m.of(e.Names)))
	case "lost", "max_hold":
		m.losses.Add(e.Context, 1, with(m.of(e.Names, loss(e.Cause))))
	}
}

func (m *metrics) extended(e redlock.RoundEvent) {
	m.extensions.Add(e.Context, 1, with(m.of(e.Names, append(outcomes(e.Err, "extended"), automaticKey.Bool(e.Auto))...)))
}

// released counts a loss that the release found. The hold ended by that release, so ended has not counted it.
func (m *metrics) released(e redlock.RoundEvent) {
	m.releases.Add(e.Context, 1, with(m.of(e.Names, outcomes(e.Err, "released")...)))
	if errors.Is(e.Err, redlock.ErrLost) {
		m.losses.Add(e.Context, 1, with(m.of(e.Names, loss(e.Err))))
	}
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
	if e.Vote.Outcome == redlock.OutcomeGranted || e.Vote.Outcome == redlock.OutcomeRefused {
		m.answers.Record(background, e.Vote.Took.Seconds(), with(of))
	}
	if word, some := code(e.Vote.Err); some {
		m.errors.Add(background, 1, with(append(of, operationKey.String(e.Op), errorType(word))))
	}
}
