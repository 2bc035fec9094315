package redlock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
)

// leapClock jumps forward right before the n-th reading from now on. So an end can be placed at any
// step of a function that reads it.
type leapClock struct {
	clock.Clock
	left atomic.Int64
	by   atomic.Int64 // the length of the jump
	gone atomic.Int64 // the sum of the jumps
}

func (c *leapClock) leap(n int, by time.Duration) {
	c.by.Store(int64(by))
	c.left.Store(int64(n))
}

// leapNow jumps if there were fewer readings.
func (c *leapClock) leapNow() {
	if c.left.Swap(0) > 0 {
		c.gone.Add(c.by.Load())
	}
}

func (c *leapClock) Now() clock.Instant {
	if c.left.Add(-1) == 0 {
		c.gone.Add(c.by.Load())
	}
	return c.Clock.Now().Add(time.Duration(c.gone.Load()))
}

// contextOf makes the lock's context as an acquisition does. Do links it to the given one.
func contextOf(t *testing.T, k *Lock) context.Context {
	t.Helper()
	if !k.opts.boundToCaller {
		return k.Context()
	}
	link, unlink := context.WithCancel(k.caller)
	t.Cleanup(unlink)
	return k.contextWithin(link)
}

// The parent is a lock's own context, which applies what is due when it is read. The stop margin or
// the end of the lock and its shares falls on every reading of the clock within Context. A deadlock
// fails the bubble.
func TestContextIsMadeWhileTheLockItIsDerivedFromEnds(t *testing.T) {
	const ttl, margin = 10 * time.Second, 3 * time.Second
	derive := map[string]func(ctx context.Context, l *Locker) (*Lock, error){
		"a share": func(ctx context.Context, l *Locker) (*Lock, error) {
			return l.TryAcquire(ctx, "a", ttl, WithShared())
		},
		"a share in Do": func(ctx context.Context, l *Locker) (*Lock, error) {
			return (&acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: ttl, boundToCaller: true}}).acquire(ctx, []LockOption{WithShared()})
		},
		"another lock": func(ctx context.Context, l *Locker) (*Lock, error) {
			return l.TryAcquire(ctx, "b", 10*ttl)
		},
		"another lock in Do": func(ctx context.Context, l *Locker) (*Lock, error) {
			return (&acquisition{call: call{l: &l.core, names: []string{"b"}, ttl: 10 * ttl, boundToCaller: true}, singleAttempt: true}).acquire(ctx, nil)
		},
	}
	for name, take := range derive {
		for _, by := range []time.Duration{ttl - margin, ttl} { // into the margin, or beyond the end
			for n := 1; n <= 12; n++ {
				t.Run(fmt.Sprintf("%s, %v at reading %d", name, by, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := &leapClock{Clock: clock.Runtime()}
						_, l := fakes(t, 3, WithClock(c))
						outer, err := l.TryAcquire(bg, "a", ttl, WithStopMargin(margin))
						require.NoError(t, err)
						ctx := outer.Context()
						inner, err := take(ctx, l)
						require.NoError(t, err)
						c.leap(n, by)
						for err := range together(3, func(int) error {
							derived, cancel := context.WithCancel(contextOf(t, inner))
							defer cancel()
							return derived.Err()
						}) {
							_ = err // the call may or may not have seen the end
						}
						c.leapNow()
						require.Error(t, ctx.Err())
						require.ErrorIs(t, context.Cause(ctx), ErrLost)
						if inner.opts.boundToCaller || inner.outer != nil {
							require.Error(t, inner.Context().Err())
							require.ErrorIs(t, context.Cause(inner.Context()), ErrLost)
						} else {
							require.NoError(t, inner.Context().Err())
						}
						_ = inner.Release(bg)
						_ = outer.Release(bg)
					})
				})
			}
		}
	}
}

// hooked is a context that calls a function when a context is derived from it.
type hooked struct {
	context.Context
	hook func()
}

func (h *hooked) Done() <-chan struct{} {
	if h.hook != nil {
		h.hook()
	}
	return h.Context.Done()
}

// The lock ends while its context is being made and cannot be cancelled yet. The context must be
// closed all the same, without a call of Err.
func TestAContextThatIsMadeWhileTheLockEndsIsClosed(t *testing.T) {
	inFakes(t, 3, func(t *testing.T, _ []*fakeNode, l *Locker) {
		given, cancel := context.WithCancel(bg)
		defer cancel()
		ctx := &hooked{Context: given}
		k, err := (&acquisition{call: call{l: &l.core, names: []string{"a"}, ttl: time.Second, boundToCaller: true}, singleAttempt: true}).acquire(ctx, nil)
		require.NoError(t, err)
		ctx.hook = func() { require.NoError(t, k.Release(bg)) }
		work := contextOf(t, k)
		select {
		case <-work.Done():
			require.ErrorIs(t, context.Cause(work), ErrReleased)
		default:
			require.Fail(t, "the context stays open")
		}
	})
}

// docs/dev/hazards.md H107: within Do the context ends with those of the locks around it, also
// after a suspend that no timer has noticed yet.
func TestAContextWithinDoSaysNoOnceALockAroundItIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &leapClock{Clock: clock.Runtime()}
		_, l := fakes(t, 3, WithClock(c))
		k := take(t, l, "a", 10*time.Second)
		require.NoError(t, l.Do(k.Context(), "b", time.Minute, func(ctx context.Context, _ *Lock) error {
			return l.Do(ctx, "c", time.Minute, func(ctx context.Context, _ *Lock) error {
				require.NoError(t, ctx.Err())
				c.gone.Add(int64(20 * time.Second))
				require.ErrorIs(t, ctx.Err(), context.Canceled)
				require.ErrorIs(t, context.Cause(ctx), ErrLost)
				return nil
			})
		}))
	})
}
