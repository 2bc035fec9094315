package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// errTwice is the fault of a wait that began when it had begun, or ended when it had not.
var errTwice = errors.New("a wait began or ended twice")

// waiters counts by the hook Waiter.
type waiters struct {
	mu     sync.Mutex
	now    map[string]int // by name
	began  int
	faulty error
}

func (w *waiters) trace() *Trace {
	w.now = map[string]int{}
	return &Trace{Waiter: func(e WaitEvent) {
		w.mu.Lock()
		defer w.mu.Unlock()
		d := -1
		if e.Waits {
			d, w.began = 1, w.began+1
		}
		for _, name := range e.Names {
			if w.now[name] += d; w.now[name] < 0 {
				w.faulty = errTwice
			}
		}
	}}
}

// counts returns how many waits of a name last, and how many waits of any name began.
func (w *waiters) counts(t *testing.T, name string) (now, began int) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(t, w.faulty)
	return w.now[name], w.began
}

// However a wait ends, it is reported once when it begins and once when it ends.
func TestTheBeginAndTheEndOfAWaitAreReportedOnce(t *testing.T) {
	t.Parallel()
	type scene struct {
		*testbed
		holder *Lock // of another process, or of the same one
		l      *Locker
		cancel context.CancelCauseFunc
	}
	ends := map[string]struct {
		local bool // the holder is a lock of the same Locker
		opts  []LockOption
		end   func(s *scene) // nil: the wait ends by itself
		err   error          // nil: it ends with the lock
	}{
		"a release":       {end: func(s *scene) { require.NoError(s.t, s.holder.Release(bg)) }},
		"a handoff":       {local: true, end: func(s *scene) { require.NoError(s.t, s.holder.Release(bg)) }},
		"an expiry":       {end: func(s *scene) { s.each(func(m *fakeredis.Master) { m.Del("a") }) }},
		"the bound":       {opts: []LockOption{WithWait(5 * time.Second)}, err: ErrHeld},
		"the own bound":   {local: true, opts: []LockOption{WithWait(5 * time.Second)}, err: ErrHeld},
		"the context":     {end: func(s *scene) { s.cancel(errStop) }, err: errStop},
		"the own context": {local: true, end: func(s *scene) { s.cancel(errStop) }, err: errStop},
		"Close":           {end: func(s *scene) { require.NoError(s.t, s.l.Close(bg)) }, err: ErrClosed},
		"a foreign key":   {end: func(s *scene) { s.each(func(m *fakeredis.Master) { m.PushList("a") }) }, err: ErrForeignKey},
	}
	for what, how := range ends {
		t.Run(what, func(t *testing.T) {
			inBubble(t, 3, func(fl *testbed) {
				var w waiters
				s := &scene{testbed: fl, l: fl.locker(WithTrace(w.trace()))}
				of := s.l
				if !how.local {
					of = fl.process().locker()
				}
				s.holder = take(fl.t, of, "a", time.Hour)
				ctx, cancel := context.WithCancelCause(bg)
				defer cancel(nil)
				s.cancel = cancel
				done := make(chan won, 1)
				go func() {
					k, err := s.l.Acquire(ctx, "a", time.Minute, how.opts...)
					done <- won{k: k, err: err}
				}()
				pass(3 * time.Second) // several polls
				now, began := w.counts(fl.t, "a")
				require.Equal(fl.t, []int{1, 1}, []int{now, began})
				if how.end != nil {
					how.end(s)
				}
				require.ErrorIs(fl.t, (<-done).err, how.err)
				now, began = w.counts(fl.t, "a")
				require.Equal(fl.t, []int{0, 1}, []int{now, began})
			})
		})
	}
}

// A call that never waits reports no wait.
func TestACallThatDoesNotWaitReportsNoWait(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		var w waiters
		l := fl.locker(WithTrace(w.trace()))
		k, err := l.Acquire(bg, "a", time.Hour)
		require.NoError(t, err)
		require.ErrorIs(t, tried(l), ErrHeld)
		_, err = l.Acquire(bg, "a", time.Minute, WithWait(0))
		require.ErrorIs(t, err, ErrHeld)
		share, err := l.Acquire(k.Context(), "a", time.Minute, WithShared())
		require.NoError(t, err)
		require.NoError(t, share.Release(bg))
		require.NoError(t, k.Release(bg))
		ctx, cancel := context.WithCancel(bg)
		cancel()
		_, err = l.Acquire(ctx, "a", time.Minute)
		require.Error(t, err)
		_, began := w.counts(t, "a")
		require.Zero(t, began)
	})
}

// A wait has an end also if the caller's context panics, at any of its calls.
func TestAWaitEndsAlsoIfTheContextPanics(t *testing.T) {
	panics, waits := 0, 0
	for at := 1; panics == at-1; at++ { // until the context is not called as often
		for _, local := range []bool{false, true} {
			inBubble(t, 3, func(fl *testbed) {
				var w waiters
				l := fl.locker(WithTrace(w.trace()))
				of := l
				if !local {
					of = fl.process().locker()
				}
				k := take(fl.t, of, "a", time.Hour)
				timer := time.AfterFunc(10*time.Second, func() { _ = k.Release(bg) })
				defer timer.Stop()
				func() {
					defer func() {
						if recover() != nil && !local {
							panics++
						}
					}()
					next, err := l.Acquire(&panickyContext{Context: bg, at: at}, "a", time.Second)
					require.NoError(fl.t, err)
					require.NoError(fl.t, next.Release(bg))
				}()
				now, began := w.counts(fl.t, "a")
				require.Zero(fl.t, now, "after a panic at call %d", at)
				require.LessOrEqual(fl.t, began, 1)
				waits += began
			})
		}
	}
	require.Greater(t, panics, 3)
	require.Greater(t, waits, 3)
}

// A process that lets others go first waits, also if it then gets the lock by its first attempt. Its
// request is not used again, so a hook that runs late still gets the names.
func TestAProcessThatLetsOthersGoFirstWaits(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { subscribe(t, m, "a") })
		var w waiters
		trace := w.trace()
		late, gate := trace.Waiter, make(chan struct{})
		l := fl.locker(WithTrace(&Trace{Waiter: func(e WaitEvent) { <-gate; late(e) }}))
		for range 10 * waiting.MaxStreak {
			k, err := l.Acquire(bg, "a", time.Minute)
			require.NoError(t, err)
			require.NoError(t, k.Release(bg))
		}
		close(gate)
		_, began := w.counts(t, "a")
		require.GreaterOrEqual(t, began, 5)
		require.Equal(t, map[string]int{"a": 0}, w.now)
	})
}

// subscribe makes a client wait for the release of a name that then makes no attempt.
func subscribe(t *testing.T, m *fakeredis.Master, name string) {
	t.Helper()
	raw, err := m.Dial(bg, "", "")
	require.NoError(t, err)
	c := redis.NewConn(raw, 0, 0)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Do("SUBSCRIBE", command.FreePrefix+name)
	require.NoError(t, err)
}
