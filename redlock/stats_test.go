package redlock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/waiting"
)

// However a wait ends, it is counted while it lasts, and only then.
func TestACallIsCountedWhileItWaits(t *testing.T) {
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
				s := &scene{testbed: fl, l: fl.locker()}
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
				require.Equal(fl.t, 1, s.l.Stats().Waiting)
				if how.end != nil {
					how.end(s)
				}
				require.ErrorIs(fl.t, (<-done).err, how.err)
				require.Zero(fl.t, s.l.Stats().Waiting)
			})
		})
	}
}

func TestACallThatDoesNotWaitIsNotCounted(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		most := watchWaiting(l)
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
		require.Zero(t, most())
	})
}

// watchWaiting looks how many calls wait, until its result is called, which returns the largest number.
func watchWaiting(l *Locker) (most func() int) {
	over, found := make(chan struct{}), make(chan int)
	go func() {
		seen := 0
		for {
			seen = max(seen, l.Stats().Waiting)
			select {
			case <-over:
				found <- seen
				return
			case <-time.After(10 * time.Microsecond): // virtual
			}
		}
	}()
	return func() int {
		close(over)
		return <-found
	}
}

// A wait ends also if the caller's context panics, at any of its calls.
func TestAWaitEndsAlsoIfTheContextPanics(t *testing.T) {
	panics, waits := 0, 0
	for at := 1; panics == at-1; at++ { // until the context is not called as often
		for _, local := range []bool{false, true} {
			inBubble(t, 3, func(fl *testbed) {
				l := fl.locker()
				of := l
				if !local {
					of = fl.process().locker()
				}
				k := take(fl.t, of, "a", time.Hour)
				timer := time.AfterFunc(10*time.Second, func() { _ = k.Release(bg) })
				defer timer.Stop()
				look := time.AfterFunc(5*time.Second, func() { waits += l.Stats().Waiting })
				defer look.Stop()
				if panicsAt(fl.t, at, func(ctx context.Context) {
					next, err := l.Acquire(ctx, "a", time.Second)
					require.NoError(fl.t, err)
					require.NoError(fl.t, next.Release(bg))
				}) && !local {
					panics++
				}
				require.Zero(fl.t, l.Stats().Waiting, "after a panic at call %d", at)
			})
		}
	}
	require.Greater(t, panics, 3)
	require.Positive(t, waits)
}

// A process that lets others go first waits, also if it then gets the lock by its first attempt.
func TestAProcessThatLetsOthersGoFirstWaits(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.each(func(m *fakeredis.Master) { subscribe(t, m, "a") })
		l := fl.locker()
		most := watchWaiting(l)
		for range 10 * waiting.MaxStreak {
			k, err := l.Acquire(bg, "a", time.Minute)
			require.NoError(t, err)
			require.NoError(t, k.Release(bg))
		}
		require.Equal(t, 1, most())
		require.Zero(t, l.Stats().Waiting)
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

func TestHeldLocksAreCountedWithoutShares(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		first := take(t, l, "a", time.Minute)
		take(t, l, "b", time.Second)
		share, err := l.Acquire(first.Context(), "a", time.Second, WithShared())
		require.NoError(t, err)
		take(t, fl.process().locker(), "elsewhere", time.Minute)
		require.Equal(t, 2, l.Stats().Held)
		pass(time.Second)
		require.Equal(t, 1, l.Stats().Held, "one has expired")
		require.NoError(t, share.Release(bg))
		require.Equal(t, 1, l.Stats().Held)
		require.NoError(t, first.Release(bg))
		require.Zero(t, l.Stats().Held)
		take(t, l, "c", time.Minute)
		fl.clock.Suspend(time.Hour)
		require.Zero(t, l.Stats().Held, "no timer has run yet")
	})
}

// why returns why each node of a Locker does not vote.
func why(l *Locker) (errs []error) {
	for _, n := range l.Stats().Nodes {
		errs = append(errs, n.Err)
	}
	return errs
}

func TestStatsSayWhichNodesVote(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithRestartGuard(guardTTL))
		fl.answered()
		var all []NodeStats
		for _, m := range fl.masters {
			all = append(all, NodeStats{Node: m.Name()})
		}
		require.Equal(t, all, l.Stats().Nodes)
		for slices.Contains(why(l), nil) { // two nodes decide an attempt, so a third one may not have been asked
			_, err := l.TryAcquire(bg, "a", time.Second)
			require.ErrorIs(t, err, ErrQuarantined)
			fl.answered()
		}
		for _, err := range why(l) {
			var quarantine *QuarantineError
			require.ErrorAs(t, err, &quarantine)
		}
		pass(2 * guardTTL)
		require.Equal(t, []error{nil, nil, nil}, why(l), "without an acquisition")

		fl.masters[1].SetInfo("role", "slave")
		pass(time.Minute)
		errs := why(l)
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[1], ErrUnfit)
		require.NoError(t, errs[2])
		require.NoError(t, l.Close(bg))
		require.Empty(t, l.Stats().Nodes)
	})
}

func TestTheZeroLockerHasTheZeroStats(t *testing.T) {
	require.Equal(t, Stats{}, new(Locker).Stats())
}

// New and Open report the Locker that they made, and nothing else.
func TestOpenedIsCalledOnceForEachLocker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, both []*Locker
		first := WithTrace(&Trace{Opened: func(l *Locker) { opened = append(opened, l) }})
		second := WithTrace(&Trace{Opened: func(l *Locker) { both = append(both, l) }})
		l, err := Open([]string{"redis://127.0.0.1:1"}, first, second)
		require.NoError(t, err)
		_, err = Open([]string{"redis://127.0.0.1:1"}, first, WithNodeTimeout(-time.Second))
		require.ErrorIs(t, err, ErrInvalid)
		synctest.Wait()
		require.Equal(t, []*Locker{l}, opened)
		require.Equal(t, opened, both)
		require.NoError(t, l.Close(bg))
	})
}
