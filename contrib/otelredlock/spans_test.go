package otelredlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

func TestSpansStandBelowTheCallersAndInTheirTime(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		ctx, above := w.tracers.Tracer("the service").Start(t.Context(), "settle")
		began := time.Now()
		w.Slow(100*time.Millisecond, 0, 1, 2)
		k, err := l.Acquire(ctx, name, ttl)
		require.NoError(t, err)
		w.Restore()
		time.Sleep(2 * time.Second)
		require.NoError(t, k.Release(t.Context()))
		released := time.Now()
		above.End()

		for span, end := range map[string]time.Time{
			"redlock.attempt": began.Add(100 * time.Millisecond),
			"redlock.acquire": began.Add(100 * time.Millisecond),
			"redlock.hold":    released,
		} {
			found := w.ended(span)
			require.Len(t, found, 1, span)
			require.Equal(t, above.SpanContext().SpanID(), found[0].Parent().SpanID(), span)
			require.Equal(t, began.UnixMicro(), found[0].StartTime().UnixMicro(), span)
			require.Equal(t, end.UnixMicro(), found[0].EndTime().UnixMicro(), span)
			require.Equal(t, codes.Unset, found[0].Status().Code, span)
		}
		require.Len(t, w.ended("redlock.release"), 1)
		require.Equal(t, "[\"invoice/42\"]", attributes(w.ended("redlock.hold")[0])["redlock.names"])
	})
}

func TestAFaultIsAnErrorWithEveryNodesVote(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		w.LoseMajority()
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		s := w.ended("redlock.attempt")[0]
		require.Equal(t, codes.Error, s.Status().Code)
		require.Contains(t, s.Status().Description, "no quorum")
		require.Equal(t, "no_quorum", attributes(s)["error.type"])
		require.Len(t, s.Events(), 3)
		require.Contains(t, s.Events()[0].Attributes, attribute.String("redlock.node", "n1"))
		require.Contains(t, s.Events()[0].Attributes, attribute.String("redlock.outcome", "failed"))
	})
}

func TestARefusalIsNoErrorAndALossIsOne(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		w.HoldElsewhere(name, time.Minute)
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.Equal(t, codes.Unset, w.ended("redlock.attempt")[0].Status().Code)
		w.ExpireNow(name)
		take(t, l)
		w.ExpireNow(name)
		synctest.Wait()
		hold := w.ended("redlock.hold")[0]
		require.Equal(t, codes.Error, hold.Status().Code)
		require.Equal(t, "lost", attributes(hold)["error.type"])
		require.Equal(t, "paused", attributes(hold)["redlock.loss_reason"])
	})
}

func TestAVoteThatWasRefusedIsNoFault(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		w.HoldElsewhere(name, time.Minute)
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrHeld)
		w.ExpireNow(name)
		events := w.ended("redlock.attempt")[0].Events()
		require.Len(t, events, 3)
		for _, e := range events {
			require.NotContains(t, e.Attributes, attribute.String("redlock.outcome", "failed"))
			for _, a := range e.Attributes {
				require.NotEqual(t, attribute.Key("error.type"), a.Key, a.Value)
			}
		}
	})
}

// Nothing tells when the last of several attempts began.
func TestTheVotesOfSeveralAttemptsAreAtTheEnd(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		w.LoseMajority()
		_, err := l.Acquire(t.Context(), name, ttl, redlock.WithWait(30*time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		s := w.ended("redlock.acquire")[0]
		require.NotEmpty(t, s.Events())
		for _, e := range s.Events() {
			require.Equal(t, s.EndTime(), e.Time)
		}
	})
}

func TestNamesStayOutOfSpansWhereTheyAreToBeHidden(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker([]otelredlock.Option{otelredlock.WithoutNames()})
		require.NoError(t, take(t, l).Release(t.Context()))
		w.LoseMajority()
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.Error(t, err)
		synctest.Wait()
		require.NotEmpty(t, w.spans.Ended())
		for _, s := range tracetest.SpanStubsFromReadOnlySpans(w.spans.Ended()) {
			require.NotContains(t, s.Status.Description, name)
			for _, kv := range s.Attributes {
				require.NotContains(t, kv.Value.String(), name)
			}
		}
	})
}

func attributes(s trace.ReadOnlySpan) map[string]string {
	found := map[string]string{}
	for _, kv := range s.Attributes() {
		found[string(kv.Key)] = kv.Value.String()
	}
	return found
}
