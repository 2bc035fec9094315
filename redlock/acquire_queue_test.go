package redlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

// docs/dev/rules.md rule 19: contenders of one process get the lock in the order of their calls.
// One that gives up leaves the queue, and those after it move up.
func TestContendersOfOneProcessGoInTheirOrder(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k, err := l.Acquire(bg, "a", time.Minute)
		require.NoError(t, err)
		impatient, giveUp := context.WithCancelCause(bg)
		var order []int // guarded by mu
		var mu sync.Mutex
		note := func(i int) { mu.Lock(); defer mu.Unlock(); order = append(order, i) }
		var done sync.WaitGroup
		for i := range 10 {
			ctx := bg
			if i == 0 || i == 4 || i == 9 { // the head, the middle, the end
				ctx = impatient
			}
			done.Go(func() {
				k, err := l.Acquire(ctx, "a", time.Minute)
				if err != nil {
					note(-i)
					return
				}
				note(i)
				time.Sleep(10 * time.Millisecond)
				_ = k.Release(ctx)
			})
			synctest.Wait() // one after the other
		}
		require.Equal(t, 10, l.waiting.Queued("a"))
		giveUp(errStop)
		synctest.Wait()
		require.Equal(t, 7, l.waiting.Queued("a"))
		require.ElementsMatch(t, []int{0, -4, -9}, order)
		order = nil
		require.NoError(t, k.Release(bg))
		done.Wait()
		require.Equal(t, []int{1, 2, 3, 5, 6, 7, 8}, order)
		require.Zero(t, l.waiting.Queued("a"))
	})
}

// docs/dev/rules.md rule 19: only the first waiter of a process sends requests to the nodes. A
// hundred waiters cost what one costs.
func TestAHundredWaitersSendNoMoreThanOne(t *testing.T) {
	cost := func(waiters int) (sets int) { // the most that any node was sent
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker()
			fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 10*time.Second) })
			fl.forget()
			ctx, cancel := context.WithTimeout(bg, 5*time.Second)
			defer cancel()
			for err := range together(waiters, func(int) error { _, err := l.Acquire(ctx, "a", time.Minute); return err }) {
				require.ErrorIs(t, err, ErrHeld)
			}
			for _, m := range fl.masters {
				sets = max(sets, m.Commands()["SET"])
			}
		})
		return sets
	}
	one, hundred := cost(1), cost(100)
	require.LessOrEqual(t, one, 10, "no more than a poll in three quarters of a second, and two attempts when it begins to listen")
	require.InDelta(t, one, hundred, 4)
}

// docs/dev/rules.md rule 19: TryAcquire sends its requests at once, whether or not others wait.
func TestTryAcquireDoesNotQueue(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(withBackoff(time.Minute, time.Minute))
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", 0) })
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		for range 5 {
			go func() { _, _ = l.Acquire(ctx, "a", time.Minute) }()
		}
		fl.forget()
		require.Zero(t, elapsed(func() { require.ErrorIs(t, tried(l), ErrHeld) }))
		fl.answered()
		for _, m := range fl.masters {
			require.LessOrEqual(t, m.Commands()["SET"], 1)
		}
		require.GreaterOrEqual(t, fl.count("SET"), 2)
		require.Equal(t, 5, l.waiting.Queued("a"))
		fl.each(func(m *fakeredis.Master) { m.Del("a") }) // the name is free, and the waiters got no announcement
		k, err := l.TryAcquire(bg, "a", time.Minute)
		require.NoError(t, err)
		require.NoError(t, k.Release(bg))
	})
}

// Waiters of different names do not wait for each other.
func TestNamesHaveLinesOfTheirOwn(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		_, err := l.Acquire(bg, "a", time.Hour)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(bg)
		defer cancel()
		go func() { _, _ = l.AcquireAll(ctx, []string{"a", "b"}, time.Hour) }()
		synctest.Wait()
		require.Zero(t, elapsed(func() { _, err = l.Acquire(bg, "c", time.Hour) }))
		require.NoError(t, err)
	})
}

// WithFailFast makes Acquire fail at once if no quorum can be reached, and in no other case.
func TestFailFastGivesUpWithoutAQuorumOnly(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Second) })
		took := elapsed(func() {
			k, err := l.Acquire(bg, "a", time.Minute, WithFailFast())
			require.NoError(t, err)
			require.NoError(t, k.Release(bg))
		})
		require.InDelta(t, 1.05, took.Seconds(), 0.06) // it waited for the holder
		stopTwo(fl)
		time.Sleep(time.Second)
		var err error
		require.Zero(t, elapsed(func() { _, err = l.Acquire(bg, "a", time.Minute, WithFailFast()) }))
		matches(t, err, ErrNoQuorum)
	})
}

// A call without WithFailFast is ahead, and waits for the nodes.
func TestFailFastDoesNotWaitBehindACallThatWaitsForNodes(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		stopTwo(fl)
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(bg)
		patient := wants(ctx, l, "a", "b")
		synctest.Wait()
		for _, names := range [][]string{{"a"}, {"b"}, {"b", "c"}} {
			var err error
			require.Zero(t, elapsed(func() { _, err = l.AcquireAll(bg, names, time.Minute, WithFailFast()) }))
			matches(t, err, ErrNoQuorum)
			var qe *QuorumError
			require.ErrorAs(t, err, &qe)
			require.Equal(t, names, qe.Names)
		}
		var err error
		require.Equal(t, time.Second, elapsed(func() { _, err = l.Acquire(bg, "a", time.Minute, WithWait(time.Second)) }))
		require.ErrorIs(t, err, ErrNoQuorum, "it was queued, and there is an outage")
		require.NotErrorIs(t, err, ErrHeld)
		cancel()
		require.ErrorIs(t, (<-patient).err, ErrNoQuorum)
		pass(time.Minute)
		quiet(t, l)
	})
}

// They were queued before the nodes failed.
func TestAnOutageEndsTheWaitOfAllWithFailFast(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, fl.locker(), "a", 10*time.Second)
		ctx, cancel := context.WithCancel(bg)
		patient := waitingFor(ctx, l, "a")
		soon, end := context.WithTimeout(bg, 12*time.Second)
		defer end()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := l.Acquire(soon, "a", time.Minute, WithFailFast())
				matches(t, err, ErrNoQuorum)
			})
		}
		synctest.Wait()
		stopTwo(fl)
		all.Wait()
		cancel()
		require.ErrorIs(t, (<-patient).err, context.Canceled)
		_ = k.Release(bg)
	})
}

// Without WithFailFast a waiting Acquire succeeds when a quorum is reachable again.
func TestAWaitingAcquireFindsAQuorumThatComesBack(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]struct{ leave, back func(m *fakeredis.Master) }{
		"restarted": {(*fakeredis.Master).Stop, func(m *fakeredis.Master) { _ = m.Restart(true) }},
		"thawed":    {(*fakeredis.Master).Freeze, (*fakeredis.Master).Unfreeze},
	} {
		for _, absence := range []time.Duration{100 * time.Millisecond, 3 * time.Second, time.Minute} {
			t.Run(name+absence.String(), func(t *testing.T) {
				inBubble(t, 3, func(fl *testbed) {
					l := fl.locker()
					for _, m := range fl.masters[1:] {
						away.leave(m)
						time.AfterFunc(absence, func() { away.back(m) })
					}
					took := elapsed(func() {
						k, err := l.Acquire(bg, "a", time.Minute)
						require.NoError(fl.t, err)
						require.NoError(fl.t, k.Release(bg))
					})
					require.GreaterOrEqual(fl.t, took, absence)
					require.Less(fl.t, took, absence+1200*time.Millisecond) // a dial's pause, a vote, a backoff
				})
			})
		}
	}
}

// Close ends every waiting Acquire, at the head of the queue and after it.
func TestWaitingEndsWhenTheLockerIsClosed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each(func(m *fakeredis.Master) { m.Set("a", "x", time.Hour) })
		time.AfterFunc(time.Second, func() { _ = l.Close(bg) })
		took := elapsed(func() {
			for err := range together(3, func(int) error { _, err := l.Acquire(bg, "a", time.Minute); return err }) {
				matches(t, err, ErrClosed)
			}
		})
		require.Equal(t, time.Second, took)
	})
}

// Close ends the waiters after the head. They do not wait for the head's attempt, which no node
// answers.
func TestQueuedWaitersEndAtOnceWhenTheLockerIsClosed(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		fl.each((*fakeredis.Master).Freeze)
		time.AfterFunc(100*time.Millisecond, func() { _ = l.Close(bg) })
		var ended [3]time.Duration
		for err := range together(3, func(i int) (err error) {
			time.Sleep(time.Duration(i) * time.Millisecond) // one after the other
			ended[i] = elapsed(func() { _, err = l.Acquire(bg, "a", time.Minute) })
			return err
		}) {
			matches(t, err, ErrClosed)
		}
		require.Equal(t, []time.Duration{maxNodeTimeout, 99 * time.Millisecond, 98 * time.Millisecond}, ended[:])
		fl.thaw() // for Close
	})
}
