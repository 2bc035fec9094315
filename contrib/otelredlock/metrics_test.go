package otelredlock_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/quorumlock/go-redlock/contrib/otelredlock"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	name = "invoice/42"
	ttl  = 10 * time.Second // worth 9.893 s
)

func take(t *testing.T, l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	k, err := l.Acquire(t.Context(), name, ttl, opts...)
	require.NoError(t, err)
	return k
}

func TestTheLifeOfALockIsCountedOnce(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		k := take(t, w.locker(nil))
		synctest.Wait()
		time.Sleep(2 * time.Second)
		require.NoError(t, k.Extend(t.Context(), ttl))
		time.Sleep(3 * time.Second)
		require.NoError(t, k.Release(t.Context()))
		time.Sleep(time.Minute) // every node has answered by then
		found := w.figures()
		for point, figure := range map[string]string{
			"redlock.attempt.duration{redlock.outcome=acquired}":                               "1/0.000",
			"redlock.acquire.duration{redlock.outcome=acquired}":                               "1/0.000",
			"redlock.extend.duration{redlock.extend.automatic=false,redlock.outcome=extended}": "1/0.000",
			"redlock.hold.duration{redlock.end_reason=released}":                               "1/5.000",
			"redlock.release.validity{}":                                                       "1/6.893",
			"redlock.release.duration{redlock.outcome=released}":                               "1/0.000",
			"redlock.nodes.quarantined{}":                                                      "0",
		} {
			require.Equal(t, figure, found[point], "%s of %v", point, found)
		}
		require.Equal(t, map[string]string{"{redlock.end_reason=lost}": "0", "{redlock.end_reason=max_hold}": "0"}, w.of("redlock.losses"),
			"the first loss is a rise from 0")
		require.Empty(t, w.of("redlock.node.errors"))
		require.Len(t, w.of("redlock.node.duration"), 9, "acquire, extend and release on three nodes")
	})
}

func TestAttemptsAreCountedByWhatBecameOfThem(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		release := w.HoldElsewhere(name, time.Hour)
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = l.Acquire(ctx, name, ttl)
		require.ErrorIs(t, err, redlock.ErrHeld)
		release()
		_, err = l.TryAcquire(t.Context(), name, ttl, redlock.WithMinValidity(9890*time.Millisecond))
		require.NoError(t, err)
		w.Slow(100*time.Millisecond, 0, 1, 2)
		_, err = l.TryAcquire(t.Context(), "late", ttl, redlock.WithMinValidity(9890*time.Millisecond))
		require.ErrorIs(t, err, redlock.ErrTooLate)
		w.LoseMajority()
		_, err = l.TryAcquire(t.Context(), "down", ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)

		found := w.of("redlock.attempt.duration")
		require.Contains(t, found, "{redlock.outcome=held}")
		require.Equal(t, "1/0.000", found["{redlock.outcome=acquired}"])
		require.Equal(t, "1/0.100", found["{error.type=too_late,redlock.outcome=too_late}"])
		require.Equal(t, "1/0.000", found["{error.type=no_quorum,redlock.outcome=no_quorum}"])
		require.Equal(t, map[string]string{"{redlock.outcome=canceled}": "1/60.000"}, w.of("redlock.acquire.duration"))
	})
}

func TestLocksThatEndUnderTheirHoldersAreLosses(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		take(t, l)
		w.ExpireNow(name)
		synctest.Wait()
		k := take(t, l, redlock.WithMaxHold(time.Second))
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, k.Release(t.Context()), redlock.ErrMaxHold)
		k = take(t, l)
		_, err := k.Detach()
		require.NoError(t, err)
		require.Equal(t, map[string]string{"{redlock.end_reason=lost}": "1", "{redlock.end_reason=max_hold}": "1"}, w.of("redlock.losses"))
		holds := w.of("redlock.hold.duration")
		require.Equal(t, "1/1.000", holds["{redlock.end_reason=max_hold}"])
		require.Contains(t, holds, "{redlock.end_reason=lost}")
		require.Contains(t, holds, "{redlock.end_reason=detached}")
		require.Empty(t, w.of("redlock.release.validity"))
	})
}

func TestAShareIsNoLockOfItsOwn(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		k := take(t, l)
		share, err := l.Acquire(k.Context(), name, ttl, redlock.WithShared())
		require.NoError(t, err)
		require.Equal(t, map[string]string{"{}": "1"}, w.of("redlock.locks.held"))
		require.NoError(t, share.Release(t.Context()))
		require.NoError(t, k.Release(t.Context()))
		require.Equal(t, map[string]string{"{}": "0"}, w.of("redlock.locks.held"))
		require.Equal(t, map[string]string{"{redlock.end_reason=released}": "1/0.000"}, w.of("redlock.hold.duration"))
		require.Len(t, w.ended("redlock.hold"), 2)
	})
}

func TestAcquisitionsAreWaitersUntilTheyEnd(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		require.Equal(t, map[string]string{"{}": "0"}, w.of("redlock.waiters"))
		k := take(t, l)
		require.Equal(t, map[string]string{"{}": "0"}, w.of("redlock.waiters"))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		for _, c := range []context.Context{t.Context(), ctx, t.Context()} {
			go func() {
				next, err := l.Acquire(c, name, ttl)
				if err == nil {
					err = next.Release(c)
				}
				done <- err
			}()
		}
		require.Equal(t, map[string]string{"{}": "3"}, w.of("redlock.waiters"))
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.Equal(t, map[string]string{"{}": "2"}, w.of("redlock.waiters"))
		require.NoError(t, k.Release(t.Context()))
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.Equal(t, map[string]string{"{}": "0"}, w.of("redlock.waiters"))
		require.Equal(t, map[string]string{"{}": "0"}, w.of("redlock.locks.held"))
	})
}

func TestErrorsOfNodesAreCountedByTheirCode(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		w.Stop(0)
		w.Freeze(1)
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(time.Minute) // what is not answered is given up by then
		found := w.of("redlock.node.errors")
		require.Equal(t, "1", found["{error.type=no_connection,redlock.node=n1,redlock.operation=acquire}"], "%v", found)
		require.Equal(t, "1", found["{error.type=silent,redlock.node=n2,redlock.operation=acquire}"], "%v", found)
	})
}

func TestQuarantinedNodesAreCountedUntilTheyVote(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil, redlock.WithRestartGuard(ttl))
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrQuarantined)
		synctest.Wait()
		for w.figures()["redlock.nodes.quarantined{}"] != "3" { // a node may not have been asked any more when two had said it
			_, err := l.TryAcquire(t.Context(), name, ttl)
			require.ErrorIs(t, err, redlock.ErrQuarantined)
		}
		require.Contains(t, w.of("redlock.attempt.duration"), "{error.type=quarantined,redlock.outcome=quarantined}")
		require.Contains(t, w.of("redlock.node.errors"), "{error.type=quarantined,redlock.node=n1,redlock.operation=acquire}")
		time.Sleep(ttl + time.Second)
		require.Equal(t, "0", w.figures()["redlock.nodes.quarantined{}"], "also if no request asks the nodes")
		require.NoError(t, take(t, l).Release(t.Context()))
		w.RestartEmpty(2)
		require.Eventually(t, func() bool { // it connects again, and may then be the node that need not be asked
			require.NoError(t, take(t, l).Release(t.Context()))
			synctest.Wait()
			return w.figures()["redlock.nodes.quarantined{}"] == "1"
		}, ttl/2, time.Second)
	})
}

func TestWakeUpsAreCountedByTheirKind(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		release := w.HoldElsewhere(name, time.Hour)
		time.AfterFunc(time.Minute, release)
		k := take(t, l)
		require.Equal(t, map[string]string{"{redlock.wakeup=message}": "1"}, w.of("redlock.wakeups"), "a poll that finds it held wakes no waiter")
		got := make(chan struct{})
		go func() {
			take(t, l)
			close(got)
		}()
		synctest.Wait()
		require.NoError(t, k.Release(t.Context()))
		<-got
		acquired := w.of("redlock.acquire.duration")["{redlock.outcome=acquired}"]
		require.True(t, strings.HasPrefix(acquired, "2/60.0"), acquired)
	})
}

func TestAReleaseThatIsNotAnnouncedIsCountedAsAPoll(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		_ = w.HoldElsewhere(name, time.Hour)
		time.AfterFunc(time.Minute, func() { w.DeleteKey(name) })
		require.NoError(t, take(t, w.locker(nil)).Release(t.Context()))
		require.Equal(t, map[string]string{"{redlock.wakeup=poll}": "1"}, w.of("redlock.wakeups"))
	})
}

func TestMetricsCarryNoNamesButWhatTheProgramSays(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		kind := func(names []string) []attribute.KeyValue {
			before, _, _ := strings.Cut(names[0], "/")
			return []attribute.KeyValue{attribute.String("kind", before)}
		}
		k := take(t, w.locker([]otelredlock.Option{otelredlock.WithAttributes(kind)}))
		require.NoError(t, k.Release(t.Context()))
		for point := range w.figures() {
			require.NotContains(t, point, name)
			if !strings.Contains(point, "redlock.node") {
				require.Contains(t, point, "kind=invoice")
			}
		}
	})
}

// Each bound is a series for each node, operation and outcome. An answer after the default node
// timeout is in a higher bucket than one right before it.
func TestDurationsOfNodesHaveFewBoundsThatShowTimeouts(t *testing.T) {
	for _, took := range []time.Duration{490 * time.Millisecond, 510 * time.Millisecond} {
		watch(t, func(t *testing.T, w *watched) {
			k := take(t, w.locker(nil)) // makes the connections
			w.Slow(took, 0)
			require.NoError(t, k.Extend(t.Context(), ttl))
			time.Sleep(time.Second) // until the slow node has answered
			points := w.histogram("redlock.node.duration")
			require.NotEmpty(t, points)
			late := uint64(0)
			for _, p := range points {
				require.LessOrEqual(t, len(p.Bounds), 8)
				for i, n := range p.BucketCounts {
					if i > slices.Index(p.Bounds, 0.5) {
						late += n
					}
				}
			}
			require.Equal(t, took > 500*time.Millisecond, late > 0, "answers after %v", took)
		})
	}
}

// instrument finds the names of instruments in metrics.go, and row those in the document's table.
var (
	instrument = regexp.MustCompile(`"(redlock\.[a-z._]+)"`)
	row        = regexp.MustCompile("(?m)^\\| `(redlock\\.[a-z._]+)` \\| ([^|]*) \\|")
)

// A metric that the document does not know, or the other way round, is a mistake. So is another kind
// or unit.
func TestTheDocumentListsEveryMetric(t *testing.T) {
	text, err := os.ReadFile("../../docs/telemetry.md")
	require.NoError(t, err)
	source, err := os.ReadFile("metrics.go")
	require.NoError(t, err)
	documented, made := map[string]string{}, map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = m[2]
	}
	for _, m := range instrument.FindAllStringSubmatch(string(source), -1) {
		made[m[1]] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(made)), slices.Collect(maps.Keys(documented)))
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil, redlock.WithRestartGuard(ttl))
		k := take(t, l) // after the quarantine
		require.NoError(t, k.Extend(t.Context(), ttl))
		require.NoError(t, k.Release(t.Context()))
		take(t, l)
		w.ExpireNow(name)
		all := w.collect()
		for _, m := range all {
			kind := "histogram"
			if sum, is := m.Data.(metricdata.Sum[int64]); is && sum.IsMonotonic {
				kind = "counter"
			} else if is {
				kind = "up-down counter"
			}
			require.Equal(t, kind+", "+m.Unit, documented[m.Name], m.Name)
		}
		require.Len(t, all, len(documented), "all of them")
	})
}
