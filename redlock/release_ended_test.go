package redlock

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/command"
)

// blockingContext is a user's own context whose methods block while gate is set.
type blockingContext struct {
	context.Context
	gate atomic.Pointer[chan struct{}]
}

func (c *blockingContext) block() (unblock func()) {
	gate := make(chan struct{})
	c.gate.Store(&gate)
	return func() { close(gate) }
}

func (c *blockingContext) wait() {
	if gate := c.gate.Load(); gate != nil {
		<-*gate
	}
}

func (c *blockingContext) Done() <-chan struct{} { c.wait(); return c.Context.Done() }
func (c *blockingContext) Err() error            { c.wait(); return c.Context.Err() }
func (c *blockingContext) Value(key any) any     { c.wait(); return c.Context.Value(key) }

// endsAt checks that a lock ends at an instant, is undone then, and is handed to the next waiter.
func endsAt(t *testing.T, fl *testbed, l *Locker, k *Lock, at clock.Instant) {
	t.Helper()
	next := wants(bg, l, k.Names()...)
	<-k.Context().Done()
	require.Equal(t, at, l.now())
	synctest.Wait()
	require.Equal(t, at, l.now(), "it is handed over at once")
	w := gets(t, next)
	require.NotEqual(t, k.Token(), w.k.Token())
	require.NoError(t, w.k.Release(bg))
	fl.releasedEverywhere(k.holder.Names[0])
}

// A lock of Do ends with the user's context. Its end must not run the user's code on the goroutine
// that ends all other locks.
func TestAContextThatBlocksDelaysNoEnd(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		given, cancel := context.WithCancelCause(bg)
		ctx := &blockingContext{Context: given}
		entered, did := make(chan *Lock), make(chan error, 1)
		go func() {
			did <- l.Do(ctx, "a", 10*time.Second, func(ctx context.Context, k *Lock) error {
				entered <- k
				<-ctx.Done()
				return context.Cause(ctx)
			}, WithMaxHold(3*time.Second))
		}()
		a := <-entered
		b := takeAtOnce(t, l, "b", time.Minute, WithMaxHold(4*time.Second))
		ended := l.now().Add(4 * time.Second)
		unblock := ctx.block()
		pass(3 * time.Second)
		require.ErrorIs(t, context.Cause(a.Context()), ErrMaxHold)
		fl.releasedEverywhere("a")
		endsAt(t, fl, l, b, ended)
		require.Empty(t, did, "Do returns to the user's code")
		unblock()
		require.ErrorIs(t, <-did, ErrMaxHold)
		cancel(nil)
	})
}

// The context of a lock in Do ends with the given context and its cause. After Do has returned
// nothing of it is left.
func TestAContextWithinDoEndsWithTheGivenOne(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		given, cancel := context.WithCancelCause(bg)
		require.NoError(t, l.Do(given, "a", 10*time.Second, func(ctx context.Context, k *Lock) error {
			require.NoError(t, ctx.Err())
			cancel(errSome)
			require.ErrorIs(t, ctx.Err(), context.Canceled)
			require.ErrorIs(t, context.Cause(ctx), errSome)
			require.Equal(t, ctx, k.Context())
			return nil
		}))
	})
}

// A release checks whether the next waiter still waits. This must not run the user's code under a
// mutex that all waiters need.
func TestAReleaseCallsNoContextOfAWaiter(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		ctx := &blockingContext{Context: bg}
		next := waitingFor(ctx, l, "a")
		unblock := ctx.block()
		require.NoError(t, k.Release(bg))
		require.NoError(t, take(t, l, "b", time.Minute).Release(bg))
		unblock()
		require.NoError(t, gets(t, next).k.Release(bg))
	})
}

// A lease stays registered until its undo is submitted.
func TestALeaseStaysInTheBooksUntilItsUndoIsSubmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
		gate := make(chan struct{})
		nodes[0].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op == command.Release {
				<-gate
			}
			return false
		}
		k := take(t, l, "a", time.Minute, WithMaxHold(3*time.Second))
		pass(3 * time.Second)
		require.ErrorIs(t, context.Cause(k.Context()), ErrMaxHold)
		require.Empty(t, nodes[1].commands(command.Release), "the undo is not submitted")
		require.Equal(t, 1, booked(l))
		require.ErrorIs(t, k.Release(bg), ErrMaxHold)
		_, err := k.Detach()
		require.ErrorIs(t, err, ErrMaxHold)
		_, err = l.Resume(bg, Claim{Names: []string{"a"}, Token: k.Token(), TTL: time.Minute})
		require.ErrorIs(t, err, ErrAlreadyHeld)
		closed := begunClose(bg, l)
		pass(time.Second)
		require.Empty(t, closed, "Close waits for it")
		close(gate)
		require.NoError(t, <-closed)
		require.Zero(t, booked(l))
		require.Empty(t, nodes[1].held)
	})
}

// Undos are submitted by a goroutine of their own. However long that takes, other locks end in time.
func TestAnUndoThatIsSubmittedLateDelaysNoEnd(t *testing.T) {
	for _, used := range []bool{true, false} { // the context of a: without one, the goroutine of all timers ends the lock
		synctest.Test(t, func(t *testing.T) {
			nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
			gate := make(chan struct{})
			nodes[0].script = func(_ *fakeNode, c *command.Command) bool {
				if c.Op == command.Release && c.Keys[0] == "a" {
					<-gate
				}
				return false
			}
			a := take(t, l, "a", time.Minute, WithMaxHold(3*time.Second))
			b := take(t, l, "b", time.Minute, WithMaxHold(4*time.Second))
			if used {
				a.Context()
			}
			end := b.Context().Done()
			pass(4 * time.Second)
			select {
			case <-end:
			default:
				require.Fail(t, "a Done is still open")
			}
			close(gate)
			synctest.Wait()
			require.Empty(t, nodes[0].held)
			require.Zero(t, booked(l))
		})
	}
}

// docs/dev/hazards.md H113: the contexts of a lock and of its shares end before any key of it is
// undone.
func TestALockThatATimerEndsIsUndoneAfterItsContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
		var undone atomic.Bool
		var contexts atomic.Pointer[[]<-chan struct{}]
		nodes[0].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op == command.Release {
				undone.Store(true)
				for _, end := range *contexts.Load() {
					select {
					case <-end:
					default:
						t.Error("a context has not ended")
					}
				}
			}
			return false
		}
		k := take(t, l, "a", time.Minute, WithMaxHold(3*time.Second))
		ends := []<-chan struct{}{k.Context().Done(), shared(t, k).Context().Done(), shared(t, k).Context().Done()}
		contexts.Store(&ends)
		pass(3 * time.Second)
		require.True(t, undone.Load())
	})
}

// Close waits for the goroutines that submit undos, also if the nodes have answered already.
func TestCloseLeavesNoGoroutineOfAnUndo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()))
		nodes[2].script = func(n *fakeNode, c *command.Command) bool {
			if c.Op == command.Release {
				n.act(c)
				time.Sleep(100 * time.Millisecond)
			}
			return c.Op == command.Release
		}
		take(t, l, "a", time.Minute, WithMaxHold(3*time.Second))
		before := goroutines()
		pass(3 * time.Second)
		require.Equal(t, before+1, goroutines())
		require.Zero(t, booked(l))
		require.NoError(t, l.Close(bg))
		require.Equal(t, before, goroutines())
	})
}

// A Close whose context has ended waits for such a goroutine no longer than the node timeout.
func TestCloseWaitsForABlockedNodeNoLongerThanTheNodeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes, l := fakes(t, 3, WithClock(clock.Runtime()), WithNodeTimeout(200*time.Millisecond))
		gate := make(chan struct{})
		nodes[2].script = func(_ *fakeNode, c *command.Command) bool {
			if c.Op == command.Release {
				<-gate
			}
			return false
		}
		take(t, l, "a", time.Minute, WithMaxHold(3*time.Second))
		pass(3 * time.Second)
		ctx, cancel := context.WithCancel(bg)
		cancel()
		require.Equal(t, 200*time.Millisecond, elapsed(func() { require.Error(t, l.Close(ctx)) }))
		close(gate)
		synctest.Wait()
		require.Zero(t, booked(l))
	})
}

// An extension that is confirmed within the margin does not revive the lock.
func TestNothingRevivesALockWithinTheMarginForLateTimers(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", 10*time.Second)
		for _, m := range fl.masters {
			m.Clients()[0].HoldReplies()
		}
		pass(9892 * time.Millisecond) // 6 ms before the end by drift alone
		extended := make(chan error, 1)
		go func() { extended <- k.Extend(bg, time.Minute) }()
		pass(2 * time.Millisecond)
		for _, m := range fl.masters {
			m.Clients()[0].Release()
		}
		require.ErrorIs(t, <-extended, ErrLost)
		require.LessOrEqual(t, k.Remaining(), time.Duration(0))
		require.ErrorIs(t, k.Extend(bg, time.Minute), ErrLost)
	})
}
