package otelredlock

import (
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/quorumlock/go-redlock/redlock"
)

// spans makes a span after each event, with the start and the end by the event's own time. Its
// parent is the span of the context of the acquisition, which may have ended before.
type spans struct {
	settings
	tracer trace.Tracer
}

// span makes a span, with the votes of an error as its events. Their times count from the begin of one round: if that is not
// the begin of the span, oneRound is false.
func (t *spans) span(m redlock.EventInfo, name string, took time.Duration, oneRound bool, err error, of ...attribute.KeyValue) {
	of = t.of(m.Names, of...)
	if !t.hideNames {
		of = append(of, namesKey.StringSlice(m.Names))
	}
	_, s := t.tracer.Start(m.Context, name, trace.WithTimestamp(m.At.Add(-took)), trace.WithAttributes(of...), trace.WithSpanKind(trace.SpanKindClient))
	defer s.End(trace.WithTimestamp(m.At))
	if !s.IsRecording() || err == nil {
		return
	}
	if word, failed := outcome(err, ""); failed {
		text := err.Error()
		if t.hideNames { // errors contain the names
			text = word
		}
		s.SetStatus(codes.Error, text)
	}
	var decision *redlock.QuorumError
	var lost *redlock.LostError
	switch {
	case errors.As(err, &decision):
		for _, v := range decision.Votes {
			at := m.At
			if oneRound {
				at = at.Add(v.Took - took)
			}
			s.AddEvent("redlock.vote", trace.WithTimestamp(at), trace.WithAttributes(ballot(v)...))
		}
	case errors.As(err, &lost): // their times count from an extension, and not from the acquisition
		for _, v := range lost.Votes {
			s.AddEvent("redlock.vote", trace.WithTimestamp(m.At), trace.WithAttributes(ballot(v)...))
		}
	}
}

// ballot returns the attributes of a vote.
func ballot(v redlock.Vote) []attribute.KeyValue {
	list := append(server(v.Node), outcomeKey.String(v.Outcome.String()))
	word, some := code(v.Err)
	// A node that has another holder's key has no fault, nor one that was not awaited.
	if other := word == semconv.ErrorTypeOther.Value.AsString(); some && (v.Outcome == redlock.OutcomeFailed || !other) {
		list = append(list, errorType(word))
	}
	return list
}

func (t *spans) attempt(e redlock.RoundEvent) {
	of := outcomes(e.Err, "acquired")
	if e.Err == nil {
		of = append(of, confirmedKey.Bool(e.Confirmed), validityKey.Float64(e.Validity.Seconds()))
	}
	t.span(e.EventInfo, "redlock.attempt", e.Took, true, e.Err, of...)
}

func (t *spans) acquired(e redlock.WaitEvent) {
	t.span(e.EventInfo, "redlock.acquire", e.Waited, e.Attempts == 1, e.Err, append(outcomes(e.Err, "acquired"), attemptsKey.Int(e.Attempts))...)
}

// ended makes the span of a hold, also of a share.
func (t *spans) ended(e redlock.HoldEvent) {
	end := reason(e.Cause)
	of := []attribute.KeyValue{endReasonKey.String(end)}
	var err error
	if end == "lost" || end == "max_hold" {
		err, of = e.Cause, append(of, errorType(end), loss(e.Cause))
	}
	t.span(e.EventInfo, "redlock.hold", e.Held, false, err, of...)
}

func (t *spans) released(e redlock.RoundEvent) {
	t.span(e.EventInfo, "redlock.release", e.Took, true, e.Err, outcomes(e.Err, "released")...)
}
