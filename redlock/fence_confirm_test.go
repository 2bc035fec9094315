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

func TestAConfirmationIsSentToNodesThatGrantedAndCountedLess(t *testing.T) {
	inBubble(t, 5, func(fl *testbed) {
		fl.lateAt(3) // it refuses
		l := fl.locker(WithFencing())
		most := countTo(fl.masters[0], time.Hour)
		countTo(fl.masters[1], time.Minute)
		fl.masters[3].Set("a", "another's", time.Minute)
		down(fl.masters[4])
		fl.forget()
		k := take(t, l, "a", time.Minute)
		require.True(t, k.keys.confirmed)
		require.Equal(t, most+1, k.Fence())
		for i, asked := range []int{0, 1, 1, 0, 0} {
			require.Equal(t, asked, scripts(fl.masters[i], "confirm"), "node %d", i+1)
		}
		for i, counted := range []int64{most + 1, most + 1, most + 1, 0, 0} {
			require.Equal(t, counted, counter(t, fl.masters[i], "a"), "node %d", i+1)
		}
	})
}

// If a majority has equal counters they decide the fence, whatever another node's counter is.
func TestNoConfirmationIsSentIfAMajorityCountedAlike(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(0) // it answers last
		l := fl.locker(WithFencing())
		countTo(fl.masters[0], time.Hour)
		fl.masters[0].SetDelay(time.Millisecond) // the others answer before
		began := time.Now()
		k := take(t, l, "a", time.Minute)
		require.False(t, k.keys.confirmed)
		require.Equal(t, began.UnixMicro(), k.Fence())
		require.Zero(t, scripts(fl.masters[1], "confirm")+scripts(fl.masters[2], "confirm"))
	})
}

// docs/dev/rules.md rule 12: a confirmation that does not check the key's owner would number locks
// out of order.
func TestANodeThatLostTheKeyRefusesToConfirm(t *testing.T) {
	for _, next := range []string{"", "another's"} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker(WithFencing())
			fl.apart()
			down(fl.masters[2])
			before := int64(0)
			onConfirm(fl.masters[1], func(int64) {
				before = counter(t, fl.masters[1], "a")
				fl.masters[1].Del("a")
				if next != "" {
					fl.masters[1].Set("a", next, time.Minute)
				}
			})
			_, err := l.TryAcquire(bg, "a", time.Minute)
			require.ErrorIs(t, err, ErrTooLate)
			require.ErrorContains(t, err, "acquire")
			require.Equal(t, []Outcome{OutcomeGranted, OutcomeRefused, OutcomeFailed}, votes(t, err))
			oneLine(t, err)
			require.NotZero(t, before)
			require.Equal(t, before, counter(t, fl.masters[1], "a"), "it was told the number of no holder")
			requireUndone(t, fl, l, next)
		})
	}
}

// requireUndone checks that an attempt on "a" has left nothing but its counters.
func requireUndone(t *testing.T, fl *testbed, l *Locker, other string) {
	t.Helper()
	fl.each(up)
	pass(2 * time.Second) // an undo that a master refused is sent again
	for _, m := range fl.masters {
		if value, ok := m.Get("a"); ok {
			require.Equal(t, other, value, m.Name())
		}
	}
	require.Zero(t, booked(l))
}

// confirmsInVain returns a Locker that has to confirm a fence by a node that freezes then. The third one is down.
func confirmsInVain(fl *testbed) *Locker {
	fl.t.Helper()
	fl.lateAt(2)
	l := fl.locker(WithFencing())
	fl.apart()
	down(fl.masters[2])
	onConfirm(fl.masters[1], func(int64) { fl.masters[1].Freeze() })
	return l
}

func TestAConfirmationThatNoNodeAnswersIsNoQuorum(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := confirmsInVain(fl)
		var err error
		took := elapsed(func() { _, err = l.TryAcquire(bg, "a", time.Minute) })
		require.ErrorIs(t, err, ErrNoQuorum)
		require.NotErrorIs(t, err, ErrTooLate)
		require.ErrorIs(t, err, ErrNodeTimeout)
		require.Equal(t, []Outcome{OutcomeGranted, OutcomeUnknown, OutcomeFailed}, votes(t, err))
		require.Equal(t, maxNodeTimeout, took)
		fl.masters[1].Unfreeze()
		pass(time.Second)
		requireUndone(t, fl, l, "")
	})
}

// It would count as a fault of that node.
func TestTheNodesThatAConfirmationDoesNotConcernAreNotReported(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it grants too late to be asked
		var mu sync.Mutex
		var reported []string
		l := fl.locker(WithFencing(), WithTrace(&Trace{Vote: func(e VoteEvent) {
			mu.Lock()
			defer mu.Unlock()
			if e.Op == "confirm" {
				reported = append(reported, e.Vote.Node)
			}
		}}))
		fl.apart()
		down(fl.masters[2])
		k := take(t, l, "a", time.Minute)
		require.True(t, k.keys.confirmed)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []string{"n2"}, reported)
	})
}

func TestAConfirmationThatCloseEndsIsNoOutage(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := confirmsInVain(fl)
		acquired := make(chan error, 1)
		go func() { acquired <- second(l.TryAcquire(bg, "a", time.Minute)) }()
		synctest.Wait()
		over, cancel := context.WithCancel(bg)
		cancel()
		_ = l.Close(over)
		err := <-acquired
		require.ErrorIs(t, err, ErrClosed)
		require.NotErrorIs(t, err, ErrNoQuorum)
	})
}

// docs/dev/hazards.md H94: a confirmation takes time, and only the validity that is left after it
// counts.
func TestTheValidityIsLookedAtAgainAfterAConfirmation(t *testing.T) {
	for _, c := range []struct {
		option LockOption
		delay  time.Duration
		want   error
	}{
		{nil, 490 * time.Millisecond, nil},
		{nil, 500 * time.Millisecond, ErrTooLate}, // 983 ms are good for less than two round trips
		{WithStopMargin(500 * time.Millisecond), 200 * time.Millisecond, nil},
		{WithStopMargin(500 * time.Millisecond), 300 * time.Millisecond, ErrTooLate},
	} {
		inBubble(t, 3, func(fl *testbed) {
			l := fl.locker(WithFencing(), WithNodeTimeout(900*time.Millisecond))
			fl.apart()
			fl.each(func(m *fakeredis.Master) { m.SetDelay(c.delay) })
			k, err := l.TryAcquire(bg, "a", time.Second, c.option)
			if c.want == nil {
				require.NoError(t, err)
				require.True(t, k.keys.confirmed)
				require.Equal(t, 983*time.Millisecond-2*c.delay, k.Remaining())
				return
			}
			require.ErrorIs(t, err, c.want)
			pass(2 * time.Second)
			requireUndone(t, fl, l, "")
		})
	}
}

func TestTheCallersContextEndsAConfirmation(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is down
		l := fl.locker(WithFencing())
		fl.apart()
		down(fl.masters[2])
		ctx, cancel := context.WithCancelCause(bg)
		onConfirm(fl.masters[1], func(client int64) {
			fl.masters[1].Client(client).HoldReplies()
			cancel(errSome)
		})
		took := elapsed(func() {
			_, err := l.TryAcquire(ctx, "a", time.Minute)
			require.ErrorIs(t, err, errSome)
			require.ErrorIs(t, err, ErrTooLate)
		})
		require.Zero(t, took)
		for _, c := range fl.masters[1].Clients() {
			c.Release()
		}
		requireUndone(t, fl, l, "")
	})
}

// lateContext is done before its Err says so, as contexts of users may be.
type lateContext struct {
	context.Context
	done chan struct{}
}

func (c lateContext) Done() <-chan struct{} { return c.done }
func (c lateContext) Err() error            { return nil }

func TestAnUndecidedConfirmationIsNoLockWhateverTheContextSays(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		fl.lateAt(2) // it is down
		l := fl.locker(WithFencing())
		fl.apart()
		down(fl.masters[2])
		ctx := lateContext{bg, make(chan struct{})}
		onConfirm(fl.masters[1], func(client int64) {
			fl.masters[1].Client(client).HoldReplies()
			close(ctx.done)
		})
		_, err := l.TryAcquire(ctx, "a", time.Minute)
		require.ErrorIs(t, err, ErrNoQuorum)
		for _, c := range fl.masters[1].Clients() {
			c.Release()
		}
		requireUndone(t, fl, l, "")
	})
}

func TestAClosedLockerTakesNoConfirmationForALock(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		fl.apart()
		down(fl.masters[2])
		onConfirm(fl.masters[1], func(int64) {
			go func() { _ = l.Close(bg) }()
			time.Sleep(time.Millisecond)
		})
		_, err := l.TryAcquire(bg, "a", time.Minute)
		require.ErrorIs(t, err, ErrClosed)
		requireUndone(t, fl, l, "")
	})
}

// The third node grants after the decision. Its count is not part of the fence, and it is sent no
// confirmation.
func TestALateGrantDoesNotCount(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing())
		countTo(fl.masters[0], time.Minute)
		most := countTo(fl.masters[2], time.Hour)
		straggler := fl.masters[2].Clients()
		for _, c := range straggler {
			c.HoldReplies()
		}
		onConfirm(fl.masters[1], func(int64) {
			for _, c := range straggler {
				c.Release()
			}
			time.Sleep(time.Millisecond)
		})
		k := take(t, l, "a", time.Minute)
		require.True(t, k.keys.confirmed)
		require.Equal(t, counter(t, fl.masters[0], "a"), k.Fence())
		require.Less(t, k.Fence(), most)
		require.Equal(t, most+1, counter(t, fl.masters[2], "a"), "granted, with a number of its own")
		require.Zero(t, scripts(fl.masters[2], "confirm"))
	})
}
