package redlock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// journal records what hooks receive about waiting.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// take returns the entries since the last call.
func (j *journal) take() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lines
	j.lines = nil
	return l
}

func (j *journal) trace() *Trace {
	return &Trace{
		Waiting: func(e WaitEvent) { j.note("waiting: " + heldBy(e.Err)) },
		Woken:   func(e WaitEvent) { j.note("woken by " + e.Reason) },
		Acquired: func(e WaitEvent) {
			if e.Err != nil {
				j.note("gave up")
				return
			}
			j.note("acquired")
		},
	}
}

// A call that may not wait is an acquisition like others.
func TestHooksReportAnAcquisitionThatDoesNotWait(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var j journal
		l := fl.locker(WithTrace(j.trace()), WithDefaults(WithWait(0)))
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.Equal(t, []string{"acquired"}, j.take())
		_, err = l.Acquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrHeld)
		require.Equal(t, []string{"gave up"}, j.take())
		require.NoError(t, k.Release(bg))
		k, err = l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.ErrorIs(t, tried(l), ErrHeld)
		require.NoError(t, k.Release(bg))
		require.Equal(t, []string{"acquired", "gave up"}, j.take())
	})
}

// Hooks receive which holder is waited for, what ends the wait, and how.
func TestHooksReportWaiting(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var j journal
		a, b := fl.process().locker(WithOwner("she")), fl.process().locker(WithTrace(j.trace()), longBackoff)
		k := take(t, a, "a", time.Hour)
		done := waitingFor(bg, b, "a")
		require.Equal(t, []string{`waiting: "she"`, `waiting: "she"`}, j.take())
		require.NoError(t, k.Release(bg))
		k = gets(t, done).k
		require.Equal(t, []string{"woken by message", "acquired"}, j.take())
		done = wants(bg, b, "a")
		require.Empty(t, j.take())
		require.NoError(t, k.Release(bg))
		k = gets(t, done).k
		require.Equal(t, []string{"acquired"}, j.take(), "it was handed over")
		require.NoError(t, k.Release(bg))
		ctx, cancel := context.WithTimeout(bg, 30*time.Second)
		defer cancel()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Hour) })
		require.Error(t, (<-wants(ctx, b, "a")).err)
		lines := j.take()
		require.NotContains(t, lines, "woken by poll", "it found the name held")
		require.Equal(t, "gave up", lines[len(lines)-1])
		done = waitingFor(bg, b, "a")
		fl.each(func(m *fakeredis.Master) { m.Del("a") })
		require.NoError(t, gets(t, done).k.Release(bg))
		require.Contains(t, j.take(), "woken by poll")
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Second) })
		gets(t, wants(bg, b, "a"))
		require.True(t, slices.Contains(j.take(), "woken by expiry"))
	})
}

// The events of a call count its attempts and its time.
func TestTheEventsOfAWaitCountAttemptsAndTime(t *testing.T) {
	type event struct {
		hook string
		WaitEvent
	}
	inBubble(t, 3, func(fl *testbed) {
		var events []event
		note := func(hook string) func(WaitEvent) {
			return func(e WaitEvent) { events = append(events, event{hook, e}) }
		}
		l := fl.locker(WithTrace(&Trace{
			Waiting: note("waiting"), Woken: note("woken"), Acquired: note("acquired"),
		}))
		takeAtOnce(t, fl.process().locker(), "a", time.Second)
		ctx := context.WithValue(bg, key("user"), "me")
		_, err := l.Acquire(ctx, "a", time.Minute)
		require.NoError(t, err)
		fl.answered()
		first, last := events[0], events[len(events)-1]
		require.Equal(t, "waiting", first.hook)
		require.Equal(t, 1, first.Attempts)
		require.Equal(t, "acquired", last.hook)
		require.GreaterOrEqual(t, last.Attempts, 2, "a late node keeps its key for longer")
		require.NoError(t, last.Err)
		require.GreaterOrEqual(t, last.Waited, 900*time.Millisecond)
		began := first.At.Add(-first.Waited)
		for _, e := range events {
			require.Equal(t, ctx, e.Context, e.hook)
			require.Equal(t, []string{"a"}, e.Names, e.hook)
			require.WithinDuration(t, began, e.At.Add(-e.Waited), time.Microsecond, e.hook)
			if e.hook != "acquired" {
				require.ErrorIs(t, e.Err, ErrHeld, e.hook)
			}
		}
	})
}

// heldBy returns the owner in an error.
func heldBy(err error) string {
	var held *HeldError
	if errors.As(err, &held) {
		return strconv.Quote(held.Owner)
	}
	return "unknown"
}
