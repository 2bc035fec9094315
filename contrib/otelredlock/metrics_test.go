package otelredlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
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
			"redlock.attempts{redlock.outcome=acquired}":                                  "1",
			"redlock.acquire.duration{redlock.outcome=acquired}":                          "1/0.000",
			"redlock.extensions{redlock.extend.automatic=false,redlock.outcome=extended}": "1",
			"redlock.hold.duration{redlock.end_reason=released}":                          "1/5.000",
			"redlock.release.validity{}":                                                  "1/6.893",
			"redlock.releases{redlock.outcome=released}":                                  "1",
			"redlock.nodes.quarantined{}":                                                 "0",
		} {
			require.Equal(t, figure, found[point], "%s of %v", point, found)
		}
		losses := w.of("redlock.losses")
		require.Len(t, losses, 7)
		for point, figure := range losses {
			require.Equal(t, "0", figure, "the first loss is a rise from 0: %s", point)
		}
		require.Empty(t, w.of("redlock.node.errors"))
		require.Equal(t, map[string]string{
			"{redlock.node=n1}": "3/0.000", "{redlock.node=n2}": "3/0.000", "{redlock.node=n3}": "3/0.000",
		}, w.of("redlock.node.duration"), "acquire, extend and release")
	})
}

func TestAttemptsAreCountedByWhatBecameOfThem(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil, redlock.WithNodeTimeout(ttl/2))
		release := w.HoldElsewhere(name, time.Hour)
		_, err := l.TryAcquire(t.Context(), name, ttl)
		require.ErrorIs(t, err, redlock.ErrHeld)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = l.Acquire(ctx, name, ttl)
		require.ErrorIs(t, err, redlock.ErrHeld)
		release()
		_, err = l.TryAcquire(t.Context(), name, ttl)
		require.NoError(t, err)
		w.Slow(4900*time.Millisecond, 0, 1, 2)
		_, err = l.TryAcquire(t.Context(), "late", ttl, redlock.WithStopMargin(ttl/2))
		require.ErrorIs(t, err, redlock.ErrTooLate)
		w.LoseMajority()
		_, err = l.TryAcquire(t.Context(), "down", ttl)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)

		attempts, acquisitions := w.of("redlock.attempts"), w.of("redlock.acquire.duration")
		require.Contains(t, attempts, "{redlock.outcome=held}")
		require.Equal(t, map[string]string{
			"{redlock.outcome=held}":                           "1/0.000", // TryAcquire counts like all others
			"{redlock.outcome=canceled}":                       "1/60.000",
			"{redlock.outcome=acquired}":                       "1/0.000",
			"{error.type=too_late,redlock.outcome=too_late}":   "1/4.900",
			"{error.type=no_quorum,redlock.outcome=no_quorum}": "1/0.000",
		}, acquisitions)
		delete(attempts, "{redlock.outcome=held}") // the call that waited made several
		require.Equal(t, map[string]string{
			"{redlock.outcome=acquired}":                       "1",
			"{error.type=too_late,redlock.outcome=too_late}":   "1",
			"{error.type=no_quorum,redlock.outcome=no_quorum}": "1",
		}, attempts)
	})
}

func TestAnEndThatTheCallerWantedIsNoFault(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		w.Slow(200*time.Millisecond, 0, 1, 2)
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := errors.New("another part of the work failed")
		time.AfterFunc(100*time.Millisecond, func() { cancel(failed) })
		_, err := l.Acquire(ctx, name, ttl)
		require.ErrorIs(t, err, failed)
		require.Equal(t, map[string]string{"{redlock.outcome=canceled}": "1"}, w.of("redlock.attempts"))
		require.Equal(t, map[string]string{"{redlock.outcome=canceled}": "1/0.100"}, w.of("redlock.acquire.duration"))
		for _, span := range []string{"redlock.attempt", "redlock.acquire"} {
			require.Equal(t, codes.Unset, w.ended(span)[0].Status().Code, span)
			require.Equal(t, "canceled", attributes(w.ended(span)[0])["redlock.outcome"], span)
		}
		w.LoseMajority()
		_, err = l.TryAcquire(ctx, name, ttl)
		require.ErrorIs(t, err, failed)
		_, err = l.Acquire(t.Context(), name, ttl, redlock.WithWait(time.Second))
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, "1/1.000", w.of("redlock.acquire.duration")["{error.type=no_quorum,redlock.outcome=no_quorum}"], "nobody cancelled it")
	})
}

func TestAnExtensionOfALockThatItsHolderEndsIsNoFault(t *testing.T) {
	for outcome, end := range map[string]func(k *redlock.Lock) error{
		"released": func(k *redlock.Lock) error { return k.Release(context.Background()) },
		"detached": func(k *redlock.Lock) error { _, err := k.Detach(); return err },
	} {
		t.Run(outcome, func(t *testing.T) {
			watch(t, func(t *testing.T, w *watched) {
				k := take(t, w.locker(nil))
				w.Slow(200*time.Millisecond, 0, 1, 2)
				extended := make(chan error, 1)
				go func() { extended <- k.Extend(t.Context(), ttl) }()
				synctest.Wait()
				require.NoError(t, end(k))
				require.Error(t, <-extended)
				require.Equal(t, map[string]string{"{redlock.extend.automatic=false,redlock.outcome=" + outcome + "}": "1"}, w.of("redlock.extensions"))
			})
		})
	}
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
		losses := w.of("redlock.losses")
		for _, point := range []string{"{redlock.loss_reason=paused}", "{redlock.loss_reason=max_hold}"} { // ExpireNow lets time pass in which nothing runs
			require.Equal(t, "1", losses[point], "%v", losses)
			delete(losses, point)
		}
		for point, figure := range losses {
			require.Equal(t, "0", figure, point)
		}
		holds := w.of("redlock.hold.duration")
		require.Equal(t, "1/1.000", holds["{redlock.end_reason=max_hold}"])
		require.Contains(t, holds, "{redlock.end_reason=lost}")
		require.Contains(t, holds, "{redlock.end_reason=detached}")
		require.Empty(t, w.of("redlock.release.validity"))
	})
}

// No extension looks for the keys of these locks. Each loss is counted once: where it is found.
func TestALossThatTheReleaseFindsIsALoss(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		k := take(t, l)
		w.DeleteKey(name)
		require.ErrorIs(t, k.Release(t.Context()), redlock.ErrLost)
		require.Equal(t, "1", w.of("redlock.losses")["{redlock.loss_reason=gone}"])

		k = take(t, l)
		w.DeleteKey(name)
		require.ErrorIs(t, k.Check(t.Context()), redlock.ErrLost)
		require.ErrorIs(t, k.Release(t.Context()), redlock.ErrLost)
		require.Equal(t, "2", w.of("redlock.losses")["{redlock.loss_reason=gone}"])
		require.Equal(t, map[string]string{"{error.type=lost,redlock.outcome=lost}": "1"}, w.of("redlock.releases"))
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
		for _, node := range []string{"n1", "n2", "n3"} {
			for w.of("redlock.node.errors")["{error.type=quarantined,redlock.node="+node+",redlock.operation=acquire}"] == "" {
				// Two had said it before this one was asked.
				_, err := l.TryAcquire(t.Context(), name, ttl)
				require.ErrorIs(t, err, redlock.ErrQuarantined)
				synctest.Wait()
			}
		}
		require.Equal(t, "3", w.figures()["redlock.nodes.quarantined{}"])
		require.Equal(t, map[string]string{"{redlock.node=n1}": "0", "{redlock.node=n2}": "0", "{redlock.node=n3}": "0"}, w.of("redlock.node.voting"))
		require.Contains(t, w.of("redlock.attempts"), "{error.type=quarantined,redlock.outcome=quarantined}")
		time.Sleep(ttl + time.Second)
		require.Equal(t, "0", w.figures()["redlock.nodes.quarantined{}"], "also if no request asks the nodes")
		require.NoError(t, take(t, l).Release(t.Context()))
		w.RestartEmpty(2)
		require.Eventually(t, func() bool { return w.figures()["redlock.nodes.quarantined{}"] == "1" }, ttl/2, time.Second)
	})
}

// The gauge follows the nodes, whether something is acquired or not.
func TestAGaugeSaysWhichNodesVote(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l := w.locker(nil)
		all := map[string]string{"{redlock.node=n1}": "1", "{redlock.node=n2}": "1", "{redlock.node=n3}": "1"}
		require.Equal(t, all, w.of("redlock.node.voting"))
		w.Stop(0)
		w.Freeze(1)
		time.Sleep(time.Minute)
		require.Equal(t, map[string]string{"{redlock.node=n1}": "0", "{redlock.node=n2}": "0", "{redlock.node=n3}": "1"}, w.of("redlock.node.voting"))
		w.Restore()
		time.Sleep(time.Minute)
		require.Equal(t, all, w.of("redlock.node.voting"))
		require.NoError(t, l.Close(t.Context()))
		require.Empty(t, w.of("redlock.node.voting"), "no alert follows from a Locker that was closed")
	})
}

func TestTheNumbersOfSeveralLockersAreAddedUp(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		hooks, err := otelredlock.New(otelredlock.WithMeterProvider(w.meters))
		require.NoError(t, err)
		for _, name := range []string{"a", "b"} {
			_, err := w.Locker(redlock.WithTrace(hooks)).TryAcquire(t.Context(), name, ttl)
			require.NoError(t, err)
		}
		require.Equal(t, map[string]string{"{}": "2"}, w.of("redlock.locks.held"))
		require.Len(t, w.of("redlock.node.voting"), 3)
	})
}

// Events are dropped while a hook blocks. What is held and what waits is counted all the same.
func TestHeldLocksAndWaitersAreRightAfterEventsWereDropped(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		gate := make(chan struct{})
		blocks := &redlock.Trace{Started: func(redlock.HoldEvent) { <-gate }}
		l := w.locker(nil, redlock.WithTrace(blocks))
		const acquisitions = 5000 // more events than are queued
		for range acquisitions {
			require.NoError(t, take(t, l).Release(t.Context()))
		}
		k := take(t, l)
		_, err := l.Acquire(t.Context(), "another", ttl)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 3)
		for range cap(done) {
			go func() {
				_, err := l.Acquire(ctx, name, ttl)
				done <- err
			}()
		}
		for _, blocked := range []bool{true, false} {
			require.Equal(t, map[string]string{"{}": "2"}, w.of("redlock.locks.held"))
			require.Equal(t, map[string]string{"{}": "3"}, w.of("redlock.waiters"))
			if blocked {
				close(gate)
			}
		}
		var counted int
		_, err = fmt.Sscan(w.of("redlock.attempts")["{redlock.outcome=acquired}"], &counted)
		require.NoError(t, err)
		require.Less(t, counted, acquisitions, "events were dropped")
		cancel()
		for range cap(done) {
			require.ErrorIs(t, <-done, context.Canceled)
		}
		require.NoError(t, k.Release(t.Context()))
		require.Equal(t, map[string]string{"{}": "1"}, w.of("redlock.locks.held"))
		require.Equal(t, map[string]string{"{}": "0"}, w.of("redlock.waiters"))
	})
}

// series counts what Prometheus stores: each bucket of a histogram is a series, and so are its sum and
// its count.
func (w *watched) series() (n int) {
	w.t.Helper()
	for _, m := range w.collect() {
		switch data := m.Data.(type) {
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				n += len(p.BucketCounts) + 2
			}
		case metricdata.Sum[int64]:
			n += len(data.DataPoints)
		case metricdata.Gauge[int64]:
			n += len(data.DataPoints)
		default:
			w.t.Fatalf("%s is a %T", m.Name, data)
		}
	}
	return n
}

// A minute of usual work on three nodes: workers contend, in this process and with another one. Some wait,
// some give up, some try once, some hold for long, and all nodes vote.
func TestAMinuteOfUsualWorkMakesFewSeries(t *testing.T) {
	watch(t, func(t *testing.T, w *watched) {
		l, other := w.locker(nil), w.Locker()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var all sync.WaitGroup
		for i := range 6 {
			of := l
			if i%3 == 0 {
				of = other
			}
			all.Go(func() {
				for ctx.Err() == nil {
					_ = of.Do(ctx, fmt.Sprintf("invoice/%d", rand.IntN(2)), time.Second, func(context.Context, *redlock.Lock) error {
						time.Sleep(rand.N(3 * time.Second))
						return nil
					}, redlock.WithWait(time.Second))
				}
			})
		}
		all.Go(func() {
			for ctx.Err() == nil {
				if k, err := l.TryAcquire(ctx, fmt.Sprintf("invoice/%d", rand.IntN(3)), ttl); err == nil {
					_ = k.Extend(ctx, ttl)
					_ = k.Release(ctx)
				}
				time.Sleep(time.Second)
			}
		})
		// Another process takes a name and does not say when it is free.
		all.Go(func() {
			for ctx.Err() == nil {
				if k, err := other.TryAcquire(ctx, "invoice/0", 500*time.Millisecond); err == nil {
					_, _ = k.Detach()
				}
				time.Sleep(3 * time.Second)
			}
		})
		all.Wait()
		found := w.figures()
		for _, usual := range []string{
			"redlock.attempts{redlock.outcome=held}", "redlock.acquire.duration{redlock.outcome=held}", "redlock.acquire.duration{redlock.outcome=acquired}",
			"redlock.extensions{redlock.extend.automatic=true,redlock.outcome=extended}", "redlock.wakeups{redlock.wakeup=message}",
			"redlock.node.voting{redlock.node=n3}",
		} {
			require.Contains(t, found, usual)
		}
		t.Log(w.series(), "series")
		require.LessOrEqual(t, w.series(), 120, "%v", slices.Sorted(maps.Keys(found)))
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
			if !strings.Contains(point, "redlock.node") && !strings.Contains(point, "redlock.locks.held") && !strings.Contains(point, "redlock.waiters") {
				require.Contains(t, point, "kind=invoice")
			}
		}
	})
}

// Each bound is a series for each node. An answer after the default node timeout is in a higher bucket
// than one right before it.
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
				require.LessOrEqual(t, len(p.Bounds), 6)
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
			require.Equal(t, kind(m)+", "+m.Unit, documented[m.Name], m.Name)
		}
		require.Len(t, all, len(documented), "all of them")
	})
}
